// The scheme that the ring is compared with: every rank first gathers all KV blocks, then computes
// alone. It moves the same bytes, but holds N blocks instead of two and hides none of the transfer.
// In slices it gathers and computes one share of the kv heads after the other, and holds the blocks of
// others for one share alone.

#include "core/ring/schemes.h"

namespace ringscope {

namespace {

// Pass on, hop after hop, the block received last, once the buffers are free. Return the arrival of
// the last block.
Completion gather_blocks(Communicator& comm, Pass pass, const RingProblem& problem,
                         RankMemory& mine, const Completion& buffers_free) {
  const RingSchedule ring{comm.rank(), comm.world_size()};
  Completion arrived = buffers_free;
  for (int step = 0; step + 1 < ring.steps(); ++step) {
    const int owner = ring.owner(step), next_owner = ring.owner(step + 1);
    arrived = comm.exchange({.pass = pass,
                             .payload = Payload::kv,
                             .step = step,
                             .send_owner = owner,
                             .send = mine.kv_of_owner(owner),
                             .send_bytes = problem.kv_bytes(owner),
                             .recv_owner = next_owner,
                             .recv = mine.kv_of_owner(next_owner),
                             .recv_bytes = problem.kv_bytes(next_owner)},
                            {arrived});
  }
  return arrived;
}

// One share of the heads: the rank's own tensors lie share after share, and the blocks of the others
// are gathered for one share at a time, in buffers that all shares use.
class Slice {
 public:
  Slice(Communicator& comm, const RingProblem& problem, RankMemory& mine, int number)
      : comm_(comm), problem_(problem), mine_(mine), heads_(problem.heads_of(number)) {}

  const HeadShare& heads() const { return heads_; }
  Index queries_at() const {
    return problem_.params.batch * heads_.first * problem_.rows(comm_.rank());
  }
  int owner(int step) const { return RingSchedule{comm_.rank(), comm_.world_size()}.owner(step); }
  // Return the block of step `step`, and where its gradient is computed.
  std::byte* kv(int step) const {
    return step == 0 ? mine_.own_kv() + own_kv_at() * bytes_of(problem_.params.dtype)
                     : mine_.extra_kv(step - 1);
  }
  KvGradient gradient(int step) const {
    const int place = step % comm_.world_size();
    return {place == 0 ? mine_.own_gradient() + own_kv_at() : mine_.extra_gradient(place - 1),
            problem_.rows(owner(step))};
  }
  KvGradient incoming(int step) const {
    return {mine_.extra_gradient(comm_.world_size() - 1), problem_.rows(owner(step))};
  }

  // Bring all blocks, once those of the slice before were attended. Return the arrival of the last.
  Completion gather(Pass pass, const Completion& free) {
    Completion arrived = free;
    for (int step = 0; step + 1 < comm_.world_size(); ++step)
      arrived = exchange(pass, Payload::kv, step, step, kv(step), kv(step + 1), arrived);
    return arrived;
  }
  // Pass on the gradient of step `step` + 1, and take that of the next owner.
  Completion scatter(int step, const Completion& summed) {
    return exchange(Pass::backward, Payload::dkv, step, step + 1, gradient(step + 1).data,
                    incoming(step + 2).data, summed);
  }

 private:
  Index own_kv_at() const {
    return 2 * problem_.params.batch * heads_.first_kv * problem_.rows(comm_.rank()) *
           problem_.params.head_dim;
  }
  Completion exchange(Pass pass, Payload payload, int step, int sent_step, const void* send,
                      void* recv, const Completion& after) {
    const Index value_bytes = payload == Payload::kv ? bytes_of(problem_.params.dtype) : 4;
    const auto bytes = [&](int block_owner) {
      return 2 * kv_values(heads_.of(problem_.params), problem_.rows(block_owner)) * value_bytes;
    };
    return comm_.exchange({.pass = pass,
                           .payload = payload,
                           .step = step,
                           .send_owner = owner(sent_step),
                           .send = send,
                           .send_bytes = bytes(owner(sent_step)),
                           .recv_owner = owner(sent_step + 1),
                           .recv = recv,
                           .recv_bytes = bytes(owner(sent_step + 1))},
                          {after});
  }

  Communicator& comm_;
  const RingProblem& problem_;
  RankMemory& mine_;
  HeadShare heads_;
};

void slices_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                    RankMemory& mine) {
  const int n = comm.world_size(), rank = comm.rank();
  Completion attended;
  for (int number = 0; number < problem.slices; ++number) {
    Slice slice(comm, problem, mine, number);
    const QueryBlock q = mine.query_block(slice.queries_at(), problem.rows(rank));
    const SoftmaxState state = mine.softmax_state(slice.queries_at());
    const Completion gathered = slice.gather(Pass::forward, attended);
    backend.use_heads(slice.heads());
    backend.begin(q, state);
    for (int step = 0; step < n; ++step) {
      const int owner = slice.owner(step);
      attended =
          backend.attend({Pass::forward, step, owner, step == n - 1}, problem.region(rank, owner),
                         q, {slice.kv(step), problem.rows(owner)}, state, gathered);
    }
    backend.finish(q, state);
  }
}

KvGradient slices_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                           RankMemory& mine) {
  const int n = comm.world_size(), rank = comm.rank();
  Completion summed;
  for (int number = 0; number < problem.slices; ++number) {
    Slice slice(comm, problem, mine, number);
    const QueryBlock q = mine.query_block(slice.queries_at(), problem.rows(rank));
    const BackwardState state = mine.backward_state(slice.queries_at());
    backend.use_heads(slice.heads());
    const Completion begun = backend.begin_backward(q, state);
    const Completion gathered = slice.gather(Pass::backward, begun);
    for (int step = 0; step < n; ++step) {
      const int owner = slice.owner(step);
      summed = backend.attend_backward(
          {Pass::backward, step, owner, step == n - 1}, problem.region(rank, owner), q,
          {slice.kv(step), problem.rows(owner)}, state, slice.gradient(step), gathered);
    }
    for (int step = 0; step + 1 < n; ++step) {
      const Completion arrived = slice.scatter(step, summed);
      summed = backend.add({Pass::backward, step, slice.owner(step + 2)}, slice.gradient(step + 2),
                           slice.incoming(step + 2), arrived);
    }
    backend.finish_backward({Pass::backward, n - 1, rank, true}, q, state, summed);
  }
  return {mine.own_gradient(), problem.rows(rank)};
}

}  // namespace

void allgather_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                       RankMemory& mine) {
  if (problem.slices > 1 && comm.world_size() > 1)
    return slices_forward(comm, backend, problem, mine);
  const RingSchedule ring{comm.rank(), comm.world_size()};
  const QueryBlock q = mine.query_block();
  const SoftmaxState state = mine.softmax_state();
  backend.begin(q, state);
  const Completion gathered = gather_blocks(comm, Pass::forward, problem, mine, nullptr);
  for (int step = 0; step < ring.steps(); ++step) {
    const int owner = ring.owner(step);
    backend.attend({Pass::forward, step, owner, ring.is_last(step)},
                   problem.region(ring.rank, owner), q,
                   {mine.kv_of_owner(owner), problem.rows(owner)}, state, gathered);
  }
  backend.finish(q, state);
}

KvGradient allgather_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                              RankMemory& mine) {
  if (problem.slices > 1 && comm.world_size() > 1)
    return slices_backward(comm, backend, problem, mine);
  const RingSchedule ring{comm.rank(), comm.world_size()};
  const int n = ring.world_size;
  const QueryBlock q = mine.query_block();
  const BackwardState state = mine.backward_state();
  const auto gradient_of = [&](int owner) {
    return KvGradient{mine.gradient_of_owner(owner), problem.rows(owner)};
  };
  const Completion begun = backend.begin_backward(q, state);  // the forward pass is over
  // The blocks are still here from the forward pass, but a training step would have freed them.
  const Completion gathered = gather_blocks(comm, Pass::backward, problem, mine, begun);
  Completion summed;
  for (int step = 0; step < n; ++step) {
    const int owner = ring.owner(step);
    summed = backend.attend_backward(
        {Pass::backward, step, owner, ring.is_last(step)}, problem.region(ring.rank, owner), q,
        {mine.kv_of_owner(owner), problem.rows(owner)}, state, gradient_of(owner), gathered);
  }
  // Reduce-scatter: an owner's sum starts at the rank after it, collects one share per hop, and
  // ends at its owner.
  for (int step = 0; step + 1 < n; ++step) {
    const int owner = ring.owner(step + 1), next_owner = ring.owner(step + 2);
    const Completion arrived = comm.exchange({.pass = Pass::backward,
                                              .payload = Payload::dkv,
                                              .step = step,
                                              .send_owner = owner,
                                              .send = mine.gradient_of_owner(owner),
                                              .send_bytes = problem.gradient_bytes(owner),
                                              .recv_owner = next_owner,
                                              .recv = mine.incoming_gradient(),
                                              .recv_bytes = problem.gradient_bytes(next_owner)},
                                             {summed});
    summed = backend.add({Pass::backward, step, next_owner}, gradient_of(next_owner),
                         {mine.incoming_gradient(), problem.rows(next_owner)}, arrived);
  }
  backend.finish_backward({Pass::backward, n - 1, ring.rank, true}, q, state, summed);
  return gradient_of(ring.rank);
}

}  // namespace ringscope

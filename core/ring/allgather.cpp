// The scheme that the ring is compared with: every rank first gathers all KV blocks, then computes
// alone. It moves the same bytes, but holds N blocks instead of two and hides none of the transfer.

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

}  // namespace

void allgather_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                       RankMemory& mine) {
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

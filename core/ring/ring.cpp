// Implements the ring loops. Each operation is given what it must come after, so a loop runs ahead
// of the work that it asks for. It never waits itself; a backend that works at once, as on a CPU,
// waits inside.
#include "core/ring/ring.h"

#include <algorithm>

#include "core/ring/schemes.h"

namespace ringscope {

KvHops::KvHops(Communicator& comm, const RingProblem& problem, RankMemory& mine, Pass pass,
               const Completion& free)
    : comm_(comm),
      problem_(problem),
      mine_(mine),
      pass_(pass),
      arrived_(mine.kv_buffers()),
      consumed_(mine.kv_buffers(), free) {}

void KvHops::start(int step) {
  const RingSchedule ring{comm_.rank(), comm_.world_size()};
  const int buffers = mine_.kv_buffers();
  for (; next_ < std::min(step + buffers - 1, problem_.hops()); ++next_) {
    const int owner = ring.owner(next_), next_owner = ring.owner(next_ + 1);
    const int from = next_ % buffers, to = (next_ + 1) % buffers;
    const Exchange hop{.pass = pass_,
                       .payload = Payload::kv,
                       .step = next_,
                       .send_owner = owner,
                       .send = mine_.kv_at_step(next_),
                       .send_bytes = problem_.kv_bytes(owner, next_ + 1),
                       .recv_owner = next_owner,
                       .recv = mine_.kv_at_step(next_ + 1),
                       .recv_bytes = problem_.kv_bytes(next_owner, next_ + 1)};
    if (problem_.parted == nullptr) {
      arrived_[to] = comm_.exchange(hop, {arrived_[from], consumed_[to]});
      continue;
    }
    // Where hops between may be empty, they don't say that what was in the buffer has left.
    const Completion& left = arrived_[(to + 1) % buffers];
    arrived_[to] = comm_.exchange(without_empty_halves(hop), {arrived_[from], left, consumed_[to]});
  }
}

void ring_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                  RankMemory& mine) {
  const RingSchedule ring{comm.rank(), comm.world_size()};
  const QueryBlock q = mine.query_block();
  const SoftmaxState state = mine.softmax_state();
  backend.begin(q, state);

  KvHops hops(comm, problem, mine, Pass::forward, {});  // nothing uses the buffers yet
  for (int step = 0; step < ring.steps(); ++step) {
    hops.start(step);  // the next block travels while this one is attended
    const int owner = ring.owner(step);
    const KvBlock block{mine.kv_at_step(step), problem.rows(owner)};
    hops.consumed(step, backend.attend({Pass::forward, step, owner, ring.is_last(step)},
                                       problem.region(ring.rank, owner), q, block, state,
                                       hops.arrived(step)));
  }
  backend.finish(q, state);
}

// dK and dV follow their KV block in the same direction, one step behind, and need N hops, one more
// than the block itself. (S1, part two, 8.2 sends them the other way, so they would part from it.)
// Each rank computes its own share while the sum of the earlier ranks is still on its way, adds the
// two, and sends the new sum after the block.
KvGradient ring_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                         RankMemory& mine) {
  const RingSchedule ring{comm.rank(), comm.world_size()};
  const QueryBlock q = mine.query_block();
  const BackwardState state = mine.backward_state();
  const Completion begun = backend.begin_backward(q, state);

  KvHops hops(comm, problem, mine, Pass::backward, begun);  // begun: forward is over
  Completion gradient_arrived;  // the sum of the earlier ranks for this step's block, in `incoming`
  float* const incoming = mine.incoming_gradient();
  for (int step = 0; step < ring.steps(); ++step) {
    hops.start(step);
    const int owner = ring.owner(step), next_owner = ring.owner(step + 1);
    const StepInfo info{Pass::backward, step, owner, ring.is_last(step)};
    const KvBlock block{mine.kv_at_step(step), problem.rows(owner)};
    const KvGradient gradient{mine.gradient_at_step(step), block.rows};
    const Completion attended = backend.attend_backward(info, problem.region(ring.rank, owner), q,
                                                        block, state, gradient, hops.arrived(step));
    hops.consumed(step, attended);
    Completion summed = attended;
    if (step > 0) summed = backend.add(info, gradient, {incoming, gradient.rows}, gradient_arrived);

    if (ring.world_size > 1)
      gradient_arrived = comm.exchange({.pass = Pass::backward,
                                        .payload = Payload::dkv,
                                        .step = step,
                                        .send_owner = owner,
                                        .send = gradient.data,
                                        .send_bytes = problem.gradient_bytes(owner),
                                        .recv_owner = next_owner,
                                        .recv = incoming,
                                        .recv_bytes = problem.gradient_bytes(next_owner)},
                                       {summed});
  }

  backend.finish_backward({Pass::backward, ring.steps() - 1, ring.rank, true}, q, state,
                          gradient_arrived);
  return {ring.world_size > 1 ? incoming : mine.gradient_at_step(0), problem.rows(ring.rank)};
}

}  // namespace ringscope

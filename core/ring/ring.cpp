#include "core/ring/ring.h"

#include <algorithm>
#include <vector>

namespace ringscope {

// [ring_forward
void ring_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                  RankMemory& mine) {
  const RingSchedule ring{comm.rank(), comm.world_size()};
  const QueryBlock q = mine.query_block();
  const SoftmaxState state = mine.softmax_state();
  at_step(ring.rank, 0, [&] { backend.begin(q, state); });

  const int buffers = mine.kv_buffers();      // 2, or more
  std::vector<Completion> arrived(buffers);   // by buffer: the arrival of the block in it
  std::vector<Completion> consumed(buffers);  // by buffer: the end of the last use of its block
  int hop = 0;                                // next hop; it brings the block of step hop + 1
  for (int step = 0; step < ring.steps(); ++step) {
    // Pass blocks on and receive the next ones while this block is attended.
    for (; hop < std::min(step + buffers, ring.steps()) - 1; ++hop)
      at_step(ring.rank, hop, [&] {
        const int owner = ring.owner(hop), next_owner = ring.owner(hop + 1);
        const int from = hop % buffers, to = (hop + 1) % buffers;
        arrived[to] = comm.exchange(
            {Pass::forward, Payload::kv, hop, owner, mine.kv_at_step(hop), problem.kv_bytes(owner),
             next_owner, mine.kv_at_step(hop + 1), problem.kv_bytes(next_owner)},
            {arrived[from], consumed[to]});
      });

    at_step(ring.rank, step, [&] {
      const int owner = ring.owner(step), buffer = step % buffers;
      consumed[buffer] = backend.attend(
          {Pass::forward, step, owner, ring.is_last(step)}, problem.region(ring.rank, owner), q,
          {mine.kv_at_step(step), problem.rows(owner)}, state, arrived[buffer]);
    });
  }
  at_step(ring.rank, ring.steps() - 1, [&] { backend.finish(q, state); });
}
// ring_forward]

// dK and dV travel with their KV block in the same direction and need N hops, one more than the
// block itself. (S1, part two, 8.2 sends them the other way, where they part from their block.)
// Each rank computes its own share while the sum of the earlier ranks is still on its way, adds the
// two, and sends the sum after the block.
KvGradient ring_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                         RankMemory& mine) {
  const RingSchedule ring{comm.rank(), comm.world_size()};
  const QueryBlock q = mine.query_block();
  const BackwardState state = mine.backward_state();
  Completion begun;
  at_step(ring.rank, 0, [&] { begun = backend.begin_backward(q, state); });

  const int buffers = mine.kv_buffers();  // KV blocks hop as in ring_forward
  std::vector<Completion> arrived(buffers);
  std::vector<Completion> consumed(buffers, begun);  // free after the forward pass
  Completion gradient_arrived;                       // the earlier ranks' sum for this step's block
  int hop = 0;
  for (int step = 0; step < ring.steps(); ++step) {
    for (; hop < std::min(step + buffers, ring.steps()) - 1; ++hop)
      at_step(ring.rank, hop, [&] {
        const int owner = ring.owner(hop), next_owner = ring.owner(hop + 1);
        const int from = hop % buffers, to = (hop + 1) % buffers;
        arrived[to] = comm.exchange(
            {Pass::backward, Payload::kv, hop, owner, mine.kv_at_step(hop), problem.kv_bytes(owner),
             next_owner, mine.kv_at_step(hop + 1), problem.kv_bytes(next_owner)},
            {arrived[from], consumed[to]});
      });

    at_step(ring.rank, step, [&] {
      const StepInfo info{Pass::backward, step, ring.owner(step), ring.is_last(step)};
      const int owner = ring.owner(step), next_owner = ring.owner(step + 1);
      const int buffer = step % buffers;
      // [gradient_travels
      const KvGradient gradient{mine.gradient_at_step(step), problem.rows(owner)};
      Completion summed = backend.attend_backward(info, problem.region(ring.rank, owner), q,
                                                  {mine.kv_at_step(step), problem.rows(owner)},
                                                  state, gradient, arrived[buffer]);
      consumed[buffer] = summed;
      if (step > 0)
        summed = backend.add(info, gradient, {mine.incoming_gradient(), gradient.rows},
                             gradient_arrived);

      if (ring.world_size > 1)
        gradient_arrived =
            comm.exchange({Pass::backward, Payload::dkv, step, owner, gradient.data,
                           problem.gradient_bytes(owner), next_owner, mine.incoming_gradient(),
                           problem.gradient_bytes(next_owner)},
                          {summed});
      // gradient_travels]
    });
  }

  const KvGradient home{ring.world_size > 1 ? mine.incoming_gradient() : mine.gradient_at_step(0),
                        q.rows};
  at_step(ring.rank, ring.steps() - 1, [&] {
    backend.finish_backward({Pass::backward, ring.steps() - 1, ring.rank, true}, q, state,
                            gradient_arrived);
  });
  return home;
}

}  // namespace ringscope

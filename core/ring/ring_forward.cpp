#include "core/ring/at_step.h"
#include "core/ring/ring_attention.h"
#include "core/ring/schedule.h"

namespace ringscope {

// [ring_forward
void ring_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                  RankMemory& mine) {
  const RingSchedule ring{comm.rank(), comm.world_size()};
  const QueryBlock q = mine.query_block();
  const SoftmaxState state = mine.softmax_state();
  at_step(ring.rank, 0, [&] { backend.begin(q, state); });

  Completion arrived;      // this step's block
  Completion consumed[2];  // of the steps before, even and odd: their buffer may be overwritten
  for (int step = 0; step < ring.steps(); ++step) {
    at_step(ring.rank, step, [&] {
      const int owner = ring.owner(step), next_owner = ring.owner(step + 1);
      std::byte* const block = mine.kv_at_step(step);

      // Pass the block on, and let the next one come in, while this one is attended.
      Completion next_arrived;
      if (!ring.is_last(step))
        next_arrived =
            comm.exchange({Pass::forward, Payload::kv, step, owner, block, problem.kv_bytes(owner),
                           next_owner, mine.kv_at_step(step + 1), problem.kv_bytes(next_owner)},
                          {arrived, consumed[(step + 1) % 2]});

      consumed[step % 2] = backend.attend({Pass::forward, step, owner, ring.is_last(step)},
                                          problem.region(ring.rank, owner), q,
                                          {block, problem.rows(owner)}, state, arrived);
      arrived = next_arrived;
    });
  }
  at_step(ring.rank, ring.steps() - 1, [&] { backend.finish(q, state); });
}
// ring_forward]

}  // namespace ringscope

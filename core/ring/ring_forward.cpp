#include <algorithm>
#include <vector>

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

  const int buffers = mine.kv_buffers();      // 2, or more
  std::vector<Completion> arrived(buffers);   // by buffer: the block in it
  std::vector<Completion> consumed(buffers);  // the last block in it: it may be overwritten
  int hop = 0;                                // the next: brings the block of step hop + 1
  for (int step = 0; step < ring.steps(); ++step) {
    // Pass blocks on, and let the next ones come in, while this one is attended.
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

}  // namespace ringscope

// Who holds what, when. Rank r sends to r+1 and receives from r-1, so at step t it holds the KV
// block of owner (r - t) mod N (S0, S4; S3 prints the other sign, and its own trace refutes it).
#pragma once

#include <exception>
#include <new>

#include "core/base/error.h"
#include "core/ring/problem.h"
#include "core/ring/rank_memory.h"
#include "core/ring/seams.h"

namespace ringscope {

struct RingSchedule {
  int rank = 0;
  int world_size = 1;

  constexpr int steps() const { return world_size; }
  constexpr int send_rank() const { return rank == world_size - 1 ? 0 : rank + 1; }
  constexpr int recv_rank() const { return rank == 0 ? world_size - 1 : rank - 1; }
  // [owner
  // step >= 0; steps past the last go on around the ring.
  constexpr int owner(int step) const {
    const int back = step % world_size;  // no sum: it could overflow
    return rank >= back ? rank - back : world_size - (back - rank);
  }
  // owner]
  constexpr bool is_last(int step) const { return step == world_size - 1; }
};

// ---
// Where a failure happened: whatever goes wrong inside a step leaves it as a RunError that names
// the rank and the step.

template <class F>
void at_step(int rank, int step, F&& f) {
  try {
    f();
  } catch (const RunError& error) {
    if (error.rank() >= 0) throw;  // it says already where
    throw RunError(error.what(), rank, step);
  } catch (const std::bad_alloc&) {
    throw RunError("out of memory", rank, step);
  } catch (const std::exception& error) {
    throw RunError(error.what(), rank, step);
  }
}

// ---
// Ring attention, forward and backward, and all-gather attention for comparison: written once, over
// the two seams. Who moves blocks is the communicator's business, who attends them the backend's;
// recording is a decorator around either.

// All four run one rank's part. `mine` holds Q, the rank's own KV block (and, backward, dO and what
// forward left there); out and lse, or dq and the returned gradient, are complete when the
// backend's last operation is. Throw RunError; one raised inside a step names rank and step.

// N steps, N-1 hops: at step t this rank attends the block of owner (rank - t) mod N.
void ring_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                  RankMemory& mine);

// N steps, N hops: a block's gradient follows it, one step behind, and the last hop brings it home.
// Returns the gradient of the rank's own block.
KvGradient ring_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                         RankMemory& mine);

// Gathers all KV blocks first (N-1 hops around the ring), then attends them in the ring's order.
void allgather_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                       RankMemory& mine);

// Gathers again, computes every block's gradient, then reduces and scatters these (another N-1
// hops).
KvGradient allgather_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                              RankMemory& mine);

}  // namespace ringscope

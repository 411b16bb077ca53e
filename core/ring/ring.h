// The ring schedule and the loops over it. Rank r sends to r+1 and receives from r-1, so at step t
// it holds the KV block of owner (r - t) mod N (S0, S4; S3 prints the other sign, and its own trace
// refutes it).
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
  // Return the owner of the block held at step >= 0; later steps go on around the ring.
  constexpr int owner(int step) const {
    const int back = step % world_size;  // a sum instead could overflow
    return rank >= back ? rank - back : world_size - (back - rank);
  }
  // owner]
  constexpr bool is_last(int step) const { return step == world_size - 1; }
};

// ---
// Where a failure happened. Whatever goes wrong inside a step leaves it as a RunError that names
// the rank and the step.

template <class F>
void at_step(int rank, int step, F&& f) {
  try {
    f();
  } catch (const RunError& error) {
    if (error.rank() >= 0) throw;  // it already says where
    throw RunError(error.what(), rank, step);
  } catch (const std::bad_alloc&) {
    throw RunError("out of memory", rank, step);
  } catch (const std::exception& error) {
    throw RunError(error.what(), rank, step);
  }
}

// ---
// Ring attention, and all-gather attention for comparison, written once over the two seams. The
// communicator moves blocks, the backend attends them, and recording is a decorator around either.

// Each of the four functions runs one rank's part. `mine` holds Q and the rank's own KV block; for
// backward also dO and what forward left there. out and lse, or dq and the returned gradient, are
// complete when the backend's last operation is. They throw RunError, which names rank and step if
// raised in a step.

// Run N steps with N-1 hops: at step t this rank attends the block of owner (rank - t) mod N.
void ring_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                  RankMemory& mine);

// Run N steps with N hops. A block's gradient follows one step behind it, and the last hop brings
// it home. Return the gradient of the rank's own block.
KvGradient ring_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                         RankMemory& mine);

// Gather all KV blocks (N-1 hops around the ring), then attend them in the ring's order.
void allgather_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                       RankMemory& mine);

// Gather again, compute every block's gradient, then reduce and scatter the gradients (another N-1
// hops).
KvGradient allgather_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                              RankMemory& mine);

}  // namespace ringscope

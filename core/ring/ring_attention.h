// Ring attention, forward and backward, and all-gather attention for comparison: written once, over
// the two seams. Who moves blocks is the communicator's business, who attends them the backend's;
// recording is a decorator around either.
#pragma once

#include "core/ring/block_backend.h"
#include "core/ring/communicator.h"
#include "core/ring/problem.h"
#include "core/ring/rank_memory.h"

namespace ringscope {

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

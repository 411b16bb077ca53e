// Declares the schemes, each of which is a loop over the two seams, and runs one by its name.
// ring.h has the ring; the all-gather follows here. A new scheme is a loop in a file of its own, its
// extra memory in rank_memory.cpp and a line in schemes.cpp.
#pragma once

#include "core/ring/bidirectional.h"
#include "core/ring/hybrid.h"
#include "core/ring/mesh.h"
#include "core/ring/pass_q.h"
#include "core/ring/ring.h"
#include "core/ring/two_level.h"

namespace ringscope {

// Each function runs one rank's part, as those of ring.h do.

// Gather all KV blocks (N-1 hops around the ring), then attend them in the ring's order.
void allgather_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                       RankMemory& mine);

// Gather again, compute every block's gradient, then reduce and scatter the gradients (another N-1
// hops).
KvGradient allgather_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                              RankMemory& mine);

// Run one pass by the loop of `scheme`. Throw RunError, which names rank and step.
void run_forward(Scheme scheme, Communicator& comm, BlockBackend& backend,
                 const RingProblem& problem, RankMemory& mine);
KvGradient run_backward(Scheme scheme, Communicator& comm, BlockBackend& backend,
                        const RingProblem& problem, RankMemory& mine);

}  // namespace ringscope

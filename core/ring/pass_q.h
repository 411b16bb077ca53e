// The ring that passes queries (TokenRing; arXiv:2411.01783): K and V stay, and Q, its softmax state
// and its output travel. Forward it pays where queries are few beside keys, as in a prefill on a cache;
// with as many it moves more than the ring. At step t a rank attends its own keys with the queries of
// owner (rank - t) mod N.
//
// Q goes ahead: N-1 hops. Each rank computes a state of its own keys alone, while that of the earlier
// ranks is still on its way, merges the two and sends the result after the queries: N hops, of which
// the last brings the state home, where it is finished.
//
// Backward Q, dO, the row statistics and delta go ahead and dQ follows, and dK and dV stay where they
// are summed. This is what BurstAttention's backward moves: per row of a rank 2 H d values as stored and
// H (d + 4) in f32, where the ring moves 2 G d as stored and 2 G d in f32. With one kv head to each
// query head, H = G, this is less in any dtype if d > 4: a quarter less in f32. With H >= 2 G it is
// more.
#pragma once

#include "core/ring/ring.h"

namespace ringscope {

// Each function runs one rank's part, as those of ring.h do. There is more than one rank.
void pass_q_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                    RankMemory& mine);
KvGradient pass_q_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                           RankMemory& mine);

}  // namespace ringscope

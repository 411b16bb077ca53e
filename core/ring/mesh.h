// Ranks as a grid of R x C (Mesh-Attention, arXiv:2512.20968). Rank (i, j) = i C + j gets the queries
// of its row's C ranks and the keys of its column's R ranks and attends each with each: N blocks, of R
// + C ranks instead of N. Queries come along the row and stay; K and V go round the column; then the
// states of one owner's queries, which the row's ranks have of different keys, are merged on their way
// round the row, and end at their owner. At step i' C + j' a rank attends the block of the rank i'
// places up with the queries of the rank j' places to the left.
//
// Backward dO, the row statistics and delta come along the row (Q is still there), dQ returns as the
// states do, and gradients of K and V follow their blocks around the column.
//
// A rank sends, in blocks of a rank's rows:
//
//   forward    C-1 of Q along the row, R-1 of K and V along the column, C-1 states (f32) along the row
//   backward   C-1 of dO, row statistics and delta, R-1 of K and V and R of dK and dV (f32; none if R
//              = 1), C-1 of dQ (f32)
//
// R = N is a ring, and C = N gathers all queries.
#pragma once

#include "core/ring/ring.h"

namespace ringscope {

// Each function runs one rank's part, as those of ring.h do. There is more than one rank.
void mesh_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                  RankMemory& mine);
KvGradient mesh_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                         RankMemory& mine);

}  // namespace ringscope

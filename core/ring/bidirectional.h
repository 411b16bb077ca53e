// The ring both ways round (TokenRing): half of every block travels in the ring's direction and the
// other half against it, so links are used in both directions and each carries half of the bytes. At
// step t a rank attends the first half of the block of owner (rank - t) mod N and the second half of
// that of owner (rank + t) mod N. Gradients follow their halves, one step behind, and the last of N
// hops brings each home.
//
// A block's halves are its first and its last rows, each a KV block of its own: K, then V.
#pragma once

#include "core/ring/ring.h"

namespace ringscope {

// Return the number of rows in the first half of a block, and a half as positions. Rows that
// alternate between two runs are cut at an even row, so that both halves begin with the first run.
constexpr Index rows_of_first_half(const LocalRows& rows) {
  const Index half = rows.size() / 2;
  return rows.alternating ? half - half % 2 : half;
}
constexpr LocalRows half_of(const LocalRows& rows, int half) {
  const Index cut = rows_of_first_half(rows);
  const Index begin = half == 0 ? 0 : cut, end = half == 0 ? cut : rows.size();
  return rows.part(begin, end);
}

// Each function runs one rank's part, as those of ring.h do. There is more than one rank.
void bidirectional_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                           RankMemory& mine);
KvGradient bidirectional_backward(Communicator& comm, BlockBackend& backend,
                                  const RingProblem& problem, RankMemory& mine);

}  // namespace ringscope

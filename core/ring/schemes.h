// Declares the schemes, each of which is a loop over the two seams, and runs one by its name.
// ring.h has the ring. A new scheme is a loop in a file of its own, its extra memory in
// rank_memory.cpp and a line in schemes.cpp.
#pragma once

#include "core/ring/ring.h"

namespace ringscope {

// Each runs one rank's part of a pass, as ring_forward and ring_backward do. There is more than one
// rank, but in an all-gather. The head of a loop's file says what a rank holds and sends.
using ForwardLoop = decltype(ring_forward);
using BackwardLoop = decltype(ring_backward);

ForwardLoop allgather_forward, two_level_forward, bidirectional_forward, pass_q_forward,
    hybrid_forward, mesh_forward;
BackwardLoop allgather_backward, two_level_backward, bidirectional_backward, pass_q_backward,
    hybrid_backward, mesh_backward;

// Return the number of rows in the first half of a block, and a half as positions: what the
// bidirectional ring sends one way, and the other way. Rows that
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

// Run one pass by the loop of `scheme`. Throw RunError, which names rank and step.
void run_forward(Scheme scheme, Communicator& comm, BlockBackend& backend,
                 const RingProblem& problem, RankMemory& mine);
KvGradient run_backward(Scheme scheme, Communicator& comm, BlockBackend& backend,
                        const RingProblem& problem, RankMemory& mine);

}  // namespace ringscope

// Your ring, 5: zigzag. Return the positions of a rank's rows, in growing order. `seqlen` is a multiple
// of twice the number of ranks. Together the ranks have every position once, and under a causal mask
// your ring of the lessons before has equal work for all of them.
#pragma once

#include "lessons/my_ring/given.h"

namespace my_ring {

inline std::vector<long> positions_of(int rank, int ranks, long seqlen) {
  return {};  // to be written
}

}  // namespace my_ring

// Your ring, 5, solved.
#pragma once

#include "lessons/my_ring/given.h"

namespace my_ring {

inline std::vector<long> positions_of(int rank, int ranks, long seqlen) {
  const long half = seqlen / (2 * ranks);
  std::vector<long> positions;
  for (const int chunk : {rank, 2 * ranks - 1 - rank})
    for (long i = 0; i < half; ++i) positions.push_back(chunk * half + i);
  return positions;
}

}  // namespace my_ring

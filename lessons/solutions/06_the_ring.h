// Your ring, 3, solved.
#pragma once

#include "lessons/my_ring/given.h"

namespace my_ring {

inline std::vector<State> ring_forward(Rank& rank, const Queries& mine, Block held,
                                       const Attend& attend) {
  std::vector<State> states(mine.q.size(), {kNone, 0, Row(held.v[0].size())});
  for (int step = 0; step < rank.ranks; ++step) {
    const bool is_last = step + 1 == rank.ranks;
    if (!is_last) rank.start_hop({held, {}, {}});
    attend(rank, mine, held, states);
    if (!is_last) held = rank.finish_hop().block;
  }
  return states;
}

}  // namespace my_ring

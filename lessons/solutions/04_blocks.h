// Your ring, 2, solved.
#pragma once

#include "lessons/my_ring/given.h"

namespace my_ring {

inline void attend(Rank& rank, const Queries& queries, const Block& block,
                   std::vector<State>& states) {
  for (std::size_t q = 0; q < queries.q.size(); q += Rank::kTile)
    for (std::size_t k = 0; k < block.k.size(); k += Rank::kTile) {
      const Range rows{q, std::min(q + Rank::kTile, queries.q.size())};
      const Range keys{k, std::min(k + Rank::kTile, block.k.size())};
      const Matrix tile = rank.scores(queries, rows, block, keys);
      const Matrix values(block.v.begin() + keys.first, block.v.begin() + keys.last);
      for (std::size_t i = rows.first; i < rows.last; ++i)
        carry_on(states[i], tile[i - rows.first], values);
    }
}

}  // namespace my_ring

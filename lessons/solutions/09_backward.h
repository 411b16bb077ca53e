// Your ring, 6, solved.
#pragma once

#include "lessons/my_ring/given.h"

namespace my_ring {

inline Gradient block_backward(Rank& rank, const Queries& queries, const Block& block,
                               const std::vector<State>& states, Matrix& dq) {
  const Matrix zeros(block.k.size(), Row(block.k[0].size()));
  Gradient gradient{zeros, zeros};
  const double scale = 1 / std::sqrt(static_cast<double>(block.k[0].size()));
  for (std::size_t q = 0; q < queries.q.size(); q += Rank::kTile) {
    const Range rows{q, std::min(q + Rank::kTile, queries.q.size())};
    const std::size_t most = visible(queries.positions[rows.last - 1], block.positions);
    for (std::size_t k = 0; k < most; k += Rank::kTile) {
      const Range keys{k, std::min(k + Rank::kTile, block.k.size())};
      const Matrix tile = rank.scores(queries, rows, block, keys);
      for (std::size_t i = rows.first; i < rows.last; ++i) {
        const State& state = states[i];
        const double delta = dot(queries.dout[i], state.out) / state.l;
        const std::size_t last =
            std::min(keys.last, visible(queries.positions[i], block.positions));
        for (std::size_t j = keys.first; j < last; ++j) {
          const double p = std::exp(tile[i - rows.first][j - keys.first] - state.m) / state.l;
          const double ds = p * (dot(queries.dout[i], block.v[j]) - delta);
          add(gradient.dv[j], p, queries.dout[i]);
          add(gradient.dk[j], scale * ds, queries.q[i]);
          add(dq[i], scale * ds, block.k[j]);
        }
      }
    }
  }
  return gradient;
}

inline Gradient ring_backward(Rank& rank, const Queries& mine, Block held,
                              const std::vector<State>& states, Matrix& dq) {
  Gradient sum;
  for (int step = 0; step < rank.ranks; ++step) {
    const bool is_last = step + 1 == rank.ranks;
    if (!is_last) rank.start_hop({held, {}, {}});
    sum = block_backward(rank, mine, held, states, dq);
    if (step > 0) {  // the sum of the ranks before, started a step ago
      const Gradient before = rank.finish_hop().gradient;
      for (std::size_t j = 0; j < sum.dk.size(); ++j) {
        add(sum.dk[j], 1, before.dk[j]);
        add(sum.dv[j], 1, before.dv[j]);
      }
    }
    if (!is_last) held = rank.finish_hop().block;
    rank.start_hop({{}, sum, {}});
  }
  return rank.finish_hop().gradient;
}

}  // namespace my_ring

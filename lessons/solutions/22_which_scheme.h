// Exercise 22, solved.
#pragma once

#include <cstddef>
#include <vector>

using Shares = std::vector<std::vector<double>>;  // by rank

inline Shares to_heads(const Shares& share, std::size_t heads, std::size_t rows) {
  const std::size_t ranks = share.size(), mine = heads / ranks, all_rows = ranks * rows;
  Shares swapped(ranks, std::vector<double>(mine * all_rows));
  for (std::size_t from = 0; from < ranks; ++from)
    for (std::size_t head = 0; head < heads; ++head)
      for (std::size_t i = 0; i < rows; ++i)
        swapped[head / mine][head % mine * all_rows + from * rows + i] =
            share[from][head * rows + i];
  return swapped;
}

inline int best_group(int ranks, int heads, int heads_kv) {
  int best = 1;
  double least = 0;
  for (int u = 1; u <= ranks; ++u) {
    if (ranks % u != 0 || heads % u != 0 || heads_kv % u != 0) continue;
    const double sent = (u - 1.0) / u * (2 * heads + 2 * heads_kv) +
                        (static_cast<double>(ranks) / u - 1) * 2 * heads_kv;
    if (u == 1 || sent < least) best = u, least = sent;
  }
  return best;
}

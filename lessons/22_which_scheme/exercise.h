// Exercise 22: the swap of rows for heads, and how far to go with it.
//
// N ranks have `rows` rows each of every head, one number per row: share[r][h * rows + i] is row i of
// rank r (row r * rows + i of the text) of head h. N divides the number of heads. Afterwards rank r
// has heads r * (heads / N) up to the next rank's, whole: [its heads][all N * rows rows].
#pragma once

#include <cstddef>
#include <vector>

using Shares = std::vector<std::vector<double>>;  // by rank

inline Shares to_heads(const Shares& share, std::size_t heads, std::size_t rows) {
  return share;  // not yet right: nobody has sent anything
}

// Return the group size U, of those that are possible, with which a rank of `ranks` sends least:
//
//   (U-1)/U (2H + 2G)  +  (ranks/U - 1) 2G        in units of c d e; H heads, G of K and V
//
// U divides ranks, H and G. Among equals the smallest counts.
inline int best_group(int ranks, int heads, int heads_kv) {
  return ranks;  // not yet right: it may not be possible, and may not be best
}

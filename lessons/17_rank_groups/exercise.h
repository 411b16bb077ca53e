// Exercise 17: whom a rank talks to.
//
// sizes are {TP, CP, PP, DP}, an axis is the place of one of them: 0 is TP, 3 is DP, and
// rank = ((dp * PP + pp) * CP + cp) * TP + tp.
//
// members: the rank group of `rank` along `axis`, from the lowest rank up. Those that differ from it
// along this axis, and along no other; `rank` itself is one of them.
//
// gradient_group: all ranks that have the same weights as `rank`, from the lowest up. They may differ
// from it along CP and along DP, but not along the other two.
//
// Worlds are large: use the number and the sizes, don't look through all ranks.
#pragma once

#include <array>
#include <vector>

using Sizes = std::array<int, 4>;

inline std::vector<int> members(const Sizes& sizes, int rank, int axis) {
  // Not yet right but for TP, whose groups are ranks one after the other.
  std::vector<int> group;
  const int first = rank - rank % sizes[axis];
  for (int i = 0; i < sizes[axis]; ++i) group.push_back(first + i);
  return group;
}

inline std::vector<int> gradient_group(const Sizes& sizes, int rank) {
  return members(sizes, rank, 3);  // not yet right: CP is left out
}

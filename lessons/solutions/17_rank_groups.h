// Exercise 17, solved.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

using Sizes = std::array<int, 4>;

// From one member to the next it is the product of the sizes further in.
inline std::vector<int> members(const Sizes& sizes, int rank, int axis) {
  int distance = 1;
  for (int inner = 0; inner < axis; ++inner) distance *= sizes[inner];
  const int first = rank - rank / distance % sizes[axis] * distance;
  std::vector<int> group;
  for (int i = 0; i < sizes[axis]; ++i) group.push_back(first + i * distance);
  return group;
}

// A group of DP, and of each of its members the group of CP. DP is further out, so what is found
// ascends.
inline std::vector<int> gradient_group(const Sizes& sizes, int rank) {
  std::vector<int> group;
  for (const int replica : members(sizes, rank, 3))
    for (const int member : members(sizes, replica, 1)) group.push_back(member);
  return group;
}

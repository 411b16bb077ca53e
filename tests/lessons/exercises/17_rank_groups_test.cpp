// Against a search through all ranks of some worlds; one is too large for that.
#include <string>
#include <vector>

#include "tests/lessons/exercises/exercise_test.h"

namespace {

Sizes indices_of(const Sizes& sizes, int rank) {
  Sizes indices{};
  for (int axis = 0; axis < 4; ++axis) {
    indices[axis] = rank % sizes[axis];
    rank /= sizes[axis];
  }
  return indices;
}

// Of the world's ranks those that differ from `rank` along axes of `may_differ` only.
std::vector<int> found(const Sizes& sizes, int rank, const std::array<bool, 4>& may_differ) {
  std::vector<int> group;
  for (int other = 0; other < sizes[0] * sizes[1] * sizes[2] * sizes[3]; ++other) {
    bool is_member = true;
    for (int axis = 0; axis < 4; ++axis)
      is_member &=
          may_differ[axis] || indices_of(sizes, other)[axis] == indices_of(sizes, rank)[axis];
    if (is_member) group.push_back(other);
  }
  return group;
}

}  // namespace

void check(Exercise& exercise) {
  const char* const names[] = {"TP", "CP", "PP", "DP"};
  for (const Sizes& sizes : {Sizes{2, 4, 2, 2}, {3, 1, 2, 5}, {1, 3, 4, 1}, {2, 2, 1, 3}}) {
    std::string world;
    for (int axis = 0; axis < 4; ++axis)
      world += (axis == 0 ? "" : " x ") + std::to_string(sizes[axis]);
    const int ranks = sizes[0] * sizes[1] * sizes[2] * sizes[3];
    for (int axis = 0; axis < 4; ++axis) {
      bool good = true;
      for (int rank = 0; rank < ranks; ++rank) {
        std::array<bool, 4> may_differ{};
        may_differ[axis] = true;
        good &= members(sizes, rank, axis) == found(sizes, rank, may_differ);
      }
      exercise.holds(world + ": all groups of " + names[axis], good);
    }
    bool good = true;
    for (int rank = 0; rank < ranks; ++rank)
      good &= gradient_group(sizes, rank) == found(sizes, rank, {false, true, false, true});
    exercise.holds(world + ": who has the same weights", good);
  }
  // 8 x 16 x 8 x 1,048,576 ranks.
  const std::vector<int> far = members({8, 16, 8, 1 << 20}, 1000000000, 2);
  exercise.equal("a very large world: members", static_cast<double>(far.size()), 8);
  if (far.size() == 8) exercise.equal("a very large world: the last one", far[7], 1000000384);
}

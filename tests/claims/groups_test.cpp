// Tests S1's numbering of ranks by tensor, context, pipeline and data index, by counting ranks.
#include <array>
#include <set>
#include <vector>

#include "tests/claims/claim.h"

namespace ringscope::claims {
namespace {

// Sizes and indices in the order TP, CP, PP, DP, from the innermost out.
using Grid = std::array<int, 4>;

int rank_of(const Grid& size, const Grid& index) {
  return ((index[3] * size[2] + index[2]) * size[1] + index[1]) * size[0] + index[0];
}

// Return all groups whose ranks differ in index `along` only. `spacing` multiplies the distance
// between their ranks; 1 is right.
std::vector<std::set<int>> groups_along(const Grid& size, int along, int spacing = 1) {
  std::vector<std::set<int>> groups;
  Grid at{};
  const int world = size[0] * size[1] * size[2] * size[3];
  for (int first = 0; first < world; ++first) {
    int rest = first;
    for (int axis = 0; axis < 4; ++axis) {
      at[axis] = rest % size[axis];
      rest /= size[axis];
    }
    if (at[along] != 0) continue;
    std::set<int> group;
    for (int i = 0; i < size[along]; ++i) {
      Grid member = at;
      member[along] = i * spacing % (size[along] * spacing);
      group.insert(rank_of(size, member));
    }
    groups.push_back(group);
  }
  return groups;
}

// Count the ranks that are not in exactly one group.
double badly_covered(const Grid& size, int along, int spacing = 1) {
  std::vector<int> count(static_cast<std::size_t>(size[0] * size[1] * size[2] * size[3]));
  for (const auto& group : groups_along(size, along, spacing))
    for (const int rank : group)
      if (rank < static_cast<int>(count.size())) ++count[static_cast<std::size_t>(rank)];
  double bad = 0;
  for (const int times : count) bad += times != 1 ? 1 : 0;
  return bad;
}

CLAIM(C53, GroupsCoverTheWorldOnce, holds, "S1", "part one, 8; part two, 13") {
  const Grid size = {2, 4, 3, 2};
  double bad = 0, bad_when_spread = 0;
  for (int along = 0; along < 4; ++along) {
    bad += badly_covered(size, along);
    bad_when_spread += badly_covered(size, along, 2);
  }
  const std::set<int> tensor = groups_along(size, 0).front(), wrong = groups_along(size, 1).front();
  return {
      "With ranks numbered TP first, then CP, PP and DP, the groups of each kind cover the world "
      "without overlapping, and a TP group is consecutive ranks.",
      "For all four kinds, counted over 48 ranks (2 x 4 x 3 x 2); S1 lists TP and CP only.",
      {Figure("ranks not in exactly one group, over the four kinds, of 48", bad, exactly(0),
              {"groups that take every other rank", bad_when_spread}, 0),
       Figure("distance from first to last rank of the first TP group",
              static_cast<double>(*tensor.rbegin() - *tensor.begin()), exactly(1),
              {"the first CP group", static_cast<double>(*wrong.rbegin() - *wrong.begin())}, 1)}};
}

}  // namespace
}  // namespace ringscope::claims

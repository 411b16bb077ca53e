// Tests S1's numbering of ranks by tensor, context, pipeline and data index, by counting ranks.
#include <vector>

#include "core/training/rank_groups.h"
#include "tests/claims/claim.h"

namespace ringscope::claims {
namespace {

// Count the ranks that are not in exactly one group of an axis. `spacing` multiplies the distance
// between the ranks of a group; 1 is right.
double badly_covered(const RankGroups& groups, Axis axis, int spacing = 1) {
  std::vector<int> count(static_cast<std::size_t>(groups.world_size()));
  for (const std::vector<int>& group : groups.groups(axis))
    for (const int member : group)
      if (const int rank = group[0] + spacing * (member - group[0]); rank < groups.world_size())
        ++count[static_cast<std::size_t>(rank)];
  double bad = 0;
  for (const int times : count) bad += times != 1 ? 1 : 0;
  return bad;
}

double width_of_first(const RankGroups& groups, Axis axis) {
  const std::vector<int> first = groups.members(0, axis);
  return first.back() - first.front();
}

CLAIM(C53, GroupsCoverTheWorldOnce, holds, "S1", "part one, 8; part two, 13") {
  const RankGroups groups({{2, 4, 3, 2}}, 48);
  double bad = 0, bad_when_spread = 0;
  for (const Axis axis : kAllAxes) {
    bad += badly_covered(groups, axis);
    bad_when_spread += badly_covered(groups, axis, 2);
  }
  return {
      "With ranks numbered TP first, then CP, PP and DP, the groups of each kind cover the world "
      "without overlapping, and a TP group is consecutive ranks.",
      "For all four kinds, counted over 48 ranks (2 x 4 x 3 x 2); S1 lists TP and CP only.",
      {Figure("ranks not in exactly one group, over the four kinds, of 48", bad, exactly(0),
              {"groups that take every other rank", bad_when_spread}, 0),
       Figure("distance from first to last rank of the first TP group",
              width_of_first(groups, Axis::tensor), exactly(1),
              {"the first CP group", width_of_first(groups, Axis::context)}, 1)}};
}

}  // namespace
}  // namespace ringscope::claims

// Groups of ranks: against four nested loops, and what cannot be dealt out.
#include "core/training/rank_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/core/base/thrown.h"

namespace ringscope {
namespace rank_groups_test {

constexpr PerAxis kSizes[] = {{{1, 1, 1, 1}}, {{2, 2, 1, 1}}, {{1, 4, 1, 2}}, {{2, 4, 3, 2}},
                              {{3, 1, 2, 5}}, {{8, 1, 1, 1}}, {{1, 1, 1, 7}}, {{5, 3, 2, 2}}};

RankGroups groups_of(const PerAxis& sizes) {
  int world_size = 1;
  for (const int size : sizes.numbers) world_size *= size;
  return {sizes, world_size};
}

// Ranks are counted in the order in which the loops of S1 come to them.
TEST(RankGroups, IndicesCountFromTheInnermostAxisOut) {
  for (const PerAxis& sizes : kSizes) {
    const RankGroups groups = groups_of(sizes);
    int rank = 0;
    for (int data = 0; data < sizes[Axis::data]; ++data)
      for (int pipeline = 0; pipeline < sizes[Axis::pipeline]; ++pipeline)
        for (int context = 0; context < sizes[Axis::context]; ++context)
          for (int tensor = 0; tensor < sizes[Axis::tensor]; ++tensor, ++rank) {
            const PerAxis expected{{tensor, context, pipeline, data}};
            EXPECT_EQ(groups.indices(rank), expected) << rank;
          }
    EXPECT_EQ(rank, groups.world_size());
  }
}

// All ranks that have the same indices but for `axes`.
std::vector<int> sought(const RankGroups& groups, int rank, const std::vector<Axis>& axes) {
  std::vector<int> result;
  for (int other = 0; other < groups.world_size(); ++other) {
    bool is_member = true;
    for (const Axis axis : kAllAxes)
      if (std::find(axes.begin(), axes.end(), axis) == axes.end())
        is_member &= groups.indices(other)[axis] == groups.indices(rank)[axis];
    if (is_member) result.push_back(other);
  }
  return result;
}

// Of any axes, and of none: every rank alone.
TEST(RankGroups, C53_CoverTheWorldOnceWithThoseThatASearchFinds) {
  for (const PerAxis& sizes : kSizes) {
    const RankGroups groups = groups_of(sizes);
    for (unsigned set = 0; set < 16; ++set) {
      std::vector<Axis> axes;
      for (const Axis axis : kAllAxes)
        if ((set >> static_cast<unsigned>(axis)) % 2 == 1) axes.push_back(axis);
      std::vector<int> times(static_cast<std::size_t>(groups.world_size()));
      int before = -1;
      for (const std::vector<int>& group : groups.groups(axes)) {
        EXPECT_EQ(group, sought(groups, group[0], axes)) << set;
        EXPECT_GT(group[0], before) << "by their first ranks";
        before = group[0];
        for (std::size_t place = 0; place < group.size(); ++place) {
          ++times[group[place]];
          EXPECT_EQ(groups.members(group[place], axes), group);
          if (axes.size() == 1) {
            EXPECT_EQ(groups.indices(group[place])[axes[0]], static_cast<int>(place));
          }
        }
      }
      EXPECT_EQ(times, std::vector<int>(times.size(), 1)) << set;
    }
  }
}

// 2 x 4 x 3 x 2 ranks: tensor groups are pairs of neighbours, context groups eight ranks from first
// to last, pipeline and data groups spread out.
TEST(RankGroups, LieOnNodes) {
  const RankGroups groups = groups_of({{2, 4, 3, 2}});
  EXPECT_EQ(groups.members(11, Axis::tensor), (std::vector{10, 11}));
  EXPECT_EQ(groups.members(11, Axis::context), (std::vector{9, 11, 13, 15}));
  EXPECT_EQ(groups.members(11, Axis::pipeline), (std::vector{3, 11, 19}));
  EXPECT_EQ(groups.members(11, Axis::data), (std::vector{11, 35}));
  EXPECT_EQ(placement(groups, Axis::tensor, 8), (GroupPlacement{24, 0}));
  EXPECT_EQ(placement(groups, Axis::context, 8), (GroupPlacement{12, 0}));
  EXPECT_EQ(placement(groups, Axis::pipeline, 8), (GroupPlacement{0, 16}));
  EXPECT_EQ(placement(groups, Axis::data, 8), (GroupPlacement{0, 24}));
  EXPECT_EQ(placement(groups, Axis::context, 4), (GroupPlacement{0, 12}));
  // Nodes of 3 cut every third pair; 48 ranks and more are one node.
  EXPECT_EQ(placement(groups, Axis::tensor, 3), (GroupPlacement{16, 8}));
  EXPECT_EQ(placement(groups, Axis::data, 48), (GroupPlacement{24, 0}));
  EXPECT_EQ(placement(groups, Axis::data, 1000), (GroupPlacement{24, 0}));
  // The same weights: of eight ranks, four on each of two nodes.
  EXPECT_EQ(groups.members(11, kGradientAxes), (std::vector{9, 11, 13, 15, 33, 35, 37, 39}));
  EXPECT_EQ(placement(groups, kGradientAxes, 8), (GroupPlacement{0, 6}));
}

TEST(RankGroups, RefuseWhatCannotBeDealtOut) {
  EXPECT_EQ(input_error_of([] {
              RankGroups({{2, 2, 1, 1}}, 6);
            }),
            "tensor x context x pipeline x data: 2 x 2 x 1 x 1 = 4 given for a world_size of 6; "
            "sizes that multiply to it accepted");
  EXPECT_EQ(input_error_of([] {
              RankGroups({{2, 0, 1, 1}}, 2);
            }),
            "context: 0 given, at least 1 accepted");
  EXPECT_EQ(input_error_of([] {
              RankGroups({{-2, -2, 1, 1}}, 4);
            }),
            "tensor: -2 given, at least 1 accepted");
  // The product in 32 bits would be 4.
  EXPECT_NE(input_error_of([] { RankGroups({{4, (1 << 30) + 1, 1, 1}}, 4); }), "");
  EXPECT_NE(input_error_of([] { RankGroups({{1 << 30, 1 << 30, 1 << 30, 1}}, 4); }), "");
  EXPECT_EQ(input_error_of([] {
              placement(groups_of({{2, 1, 1, 1}}), Axis::data, 0);
            }),
            "ranks a node: 0 given, at least 1 accepted");
}

}  // namespace rank_groups_test
}  // namespace ringscope

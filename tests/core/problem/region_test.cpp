// What a rank may attend of a KV block: intervals, pair counts and tile classes, against counting
// pair by pair what the definitions of mask and partition allow. The partitions' own positions are
// checked in partition_test.cpp; longer sequences, and more masks, are drawn in pieces_test.cpp.
#include "core/problem/region.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "core/problem/partition.h"
#include "tests/core/problem/all_masks.h"

namespace ringscope {
namespace {

// Allowed pairs of a region as a matrix of local rows, and its sums over rectangles.
class CountedRegion {
 public:
  CountedRegion(const DefinedMask& mask, const LocalRows& queries, const LocalRows& keys)
      : columns_(keys.size() + 1), sums_((queries.size() + 1) * columns_, 0) {
    for (Index i = 0; i < queries.size(); ++i)
      for (Index j = 0; j < keys.size(); ++j)
        at(i + 1, j + 1) =
            at(i, j + 1) + at(i + 1, j) - at(i, j) +
            (mask.allows(queries.global_position(i), keys.global_position(j)) ? 1 : 0);
  }
  Index pairs(Interval q, Interval k) {
    return at(q.last, k.last) - at(q.first, k.last) - at(q.last, k.first) + at(q.first, k.first);
  }

 private:
  Index& at(Index i, Index j) { return sums_[i * columns_ + j]; }

  Index columns_;
  std::vector<Index> sums_;  // at(i, j): pairs in the first i rows and j columns
};

class RegionTest : public testing::TestWithParam<std::tuple<PartitionKind, Index>> {
 protected:
  PartitionKind kind() const { return std::get<0>(GetParam()); }
  Index seqlen() const { return std::get<1>(GetParam()); }

  // Calls f(region, counted, description) for every mask, world_size and pair of ranks.
  template <class F>
  void for_every_region(F&& f) {
    for (const DefinedMask& defined : all_masks(seqlen())) {
      const BuiltMask built(defined);
      for (int n = 1; n <= 6; ++n) {
        const Partition partition{kind(), seqlen(), n};
        for (int rank = 0; rank < n; ++rank)
          for (int owner = 0; owner < n; ++owner) {
            const Region region{*built, partition.rows_of(rank), partition.rows_of(owner)};
            CountedRegion counted(defined, region.queries, region.keys);
            f(region, counted, [&] {
              return testing::PrintToString(defined.name()) + ", rank " + std::to_string(rank) +
                     " attends owner " + std::to_string(owner) + " of " + std::to_string(n);
            });
            if (testing::Test::HasFatalFailure()) return;
          }
      }
    }
  }
};

// Compare the pairs and the class of a tile.
template <class Describe>
void expect_tile(const Region& region, CountedRegion& counted, Interval q, Interval k,
                 const Describe& describe) {
  const Index pairs = counted.pairs(q, k);
  ASSERT_EQ(region.pairs(q, k), pairs) << describe() << ", tile [" << q.first << "," << q.last
                                       << ") x [" << k.first << "," << k.last << ")";
  ASSERT_EQ(region.tile_class(q, k), pairs == 0                     ? TileClass::empty
                                     : pairs == q.size() * k.size() ? TileClass::full
                                                                    : TileClass::partial)
      << describe() << ", tile [" << q.first << "," << q.last << ") x [" << k.first << "," << k.last
      << ")";
}

TEST_P(RegionTest, RowsPairsAndClassesOfEveryTile) {
  for_every_region([](const Region& region, CountedRegion& counted, auto describe) {
    for (Index i = 0; i < region.queries.size(); ++i)
      for (Index j = 0; j < region.keys.size(); ++j)
        ASSERT_EQ(region.allowed_rows(i).contains(j), counted.pairs({i, i + 1}, {j, j + 1}) == 1)
            << describe() << ", local rows " << i << ", " << j;
    ASSERT_EQ(region.pairs(), counted.pairs({0, region.queries.size()}, {0, region.keys.size()}))
        << describe();
    for (Index q0 = 0; q0 <= region.queries.size(); ++q0)
      for (Index q1 = q0; q1 <= region.queries.size(); ++q1)
        for (Index k0 = 0; k0 <= region.keys.size(); ++k0)
          for (Index k1 = k0; k1 <= region.keys.size(); ++k1)
            expect_tile(region, counted, {q0, q1}, {k0, k1}, describe);
  });
}

std::string test_name(const testing::TestParamInfo<std::tuple<PartitionKind, Index>>& tested) {
  return std::string(name_of(std::get<0>(tested.param))) + "_seqlen" +
         std::to_string(std::get<1>(tested.param));
}

INSTANTIATE_TEST_SUITE_P(All, RegionTest,
                         testing::Combine(testing::ValuesIn(kAllPartitions),
                                          testing::Values<Index>(1, 2, 3, 5, 9)),
                         test_name);

constexpr Mask kCausal{.seqlen = 16, .causal = true};
constexpr Index kDocumentEnds[] = {5, 16};
constexpr Region region_of(PartitionKind kind, const Mask& mask, int rank, int owner) {
  const Partition partition{kind, mask.seqlen, 4};
  return {mask, partition.rows_of(rank), partition.rows_of(owner)};
}
static_assert(region_of(PartitionKind::contiguous, kCausal, 2, 1).pairs() == 16);
static_assert(region_of(PartitionKind::contiguous, kCausal, 1, 2).pairs() == 0);
static_assert(region_of(PartitionKind::striped, kCausal, 1, 2).pairs() == 6);
static_assert(region_of(PartitionKind::fold, kCausal, 1, 1).pairs() == 10);
static_assert(region_of(PartitionKind::zigzag, kCausal, 1, 2).tile_class({0, 2}, {0, 4}) ==
              TileClass::empty);
static_assert(region_of(PartitionKind::zigzag, kCausal, 1, 2).tile_class({2, 4}, {0, 4}) ==
              TileClass::full);
static_assert(region_of(PartitionKind::striped, kCausal, 0, 0).tile_class({0, 4}, {0, 4}) ==
              TileClass::partial);
static_assert(
    region_of(PartitionKind::contiguous,
              {.seqlen = 16, .window = 2, .document_ends = kDocumentEnds, .num_documents = 2}, 1, 1)
        .allowed_rows(0) == Interval{0, 1});

}  // namespace
}  // namespace ringscope

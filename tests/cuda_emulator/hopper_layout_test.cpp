// The closed forms of Hopper's layouts against definitions written down another way, and the
// persistent schedule against brute force.
#include "cuda/kernels/hopper_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "cuda/kernels/hopper_tile.h"
#include "cuda/kernels/persistent_schedule.h"

namespace ringscope::cuda {
namespace {

// The descriptor's fields, where PTX has them.
TEST(HopperLayout, DescriptorsHoldTheirFields) {
  const auto field = [](std::uint64_t descriptor, int shift) {
    return static_cast<std::uint32_t>(descriptor >> shift & 0x3fff) * 16;
  };
  for (std::uint32_t start : {0u, 16u, 1024u, 0x12340u, 0x3fff0u})
    for (std::uint32_t leading : {16u, 16384u, 22528u})
      for (std::uint32_t stride : {1024u, 2048u, 0x3fff0u}) {
        const std::uint64_t descriptor = operand_descriptor(start, leading, stride);
        EXPECT_EQ(field(descriptor, 0), start);
        EXPECT_EQ(field(descriptor, 16), leading);
        EXPECT_EQ(field(descriptor, 32), stride);
        EXPECT_EQ(descriptor >> 46, std::uint64_t{1} << 16) << "no base offset, 128-byte swizzle";
      }
  EXPECT_EQ(columns_descriptor(2048, 16384), operand_descriptor(2048, 16384, 1024));
  EXPECT_EQ(field(advance(columns_descriptor(2048, 16384), 4096), 0), 6144u);
}

// The fields do not run into each other, whatever is in the one beside.
TEST(HopperLayout, AdvancingStaysWithinTheStart) {
  const std::uint64_t whole = rows_descriptor(1024);
  for (std::uint32_t bytes = 0; bytes < 227 * 1024; bytes += 16) {
    const std::uint64_t moved = advance(whole, bytes);
    EXPECT_EQ(moved >> 14, whole >> 14);
    EXPECT_EQ((moved & 0x3fff) * 16, 1024 + bytes);
  }
}

// PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16", accumulator D: of the 64 x N matrix,
// row = 16 warp + lane / 4 for elements whose i mod 4 is 0 or 1, and 8 more for 2 and 3; column =
// 8 (i / 4) + 2 (lane mod 4) + (i mod 2).
TEST(HopperLayout, AccumulatorsCoverTheMatrixAsDefined) {
  for (const int columns : {8, 64, 128, 256}) {
    std::set<std::pair<int, int>> covered;
    for (int warp = 0; warp < 4; ++warp)
      for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < columns / 2; ++i) {
          const int thread = warp * 32 + lane;
          const int row = 16 * warp + lane / 4 + (i % 4 < 2 ? 0 : 8);
          const int column = 8 * (i / 4) + 2 * (lane % 4) + (i & 1);
          EXPECT_EQ(accumulator_row(thread, i), row);
          EXPECT_EQ(accumulator_column(thread, i), column);
          covered.emplace(row, column);
        }
    EXPECT_EQ(covered.size(), 64u * static_cast<unsigned>(columns));
  }
}

// Where the copy engine puts element (row, column) of a tile of panels, and where a product that
// starts at piece_offset() looks for it.
TEST(HopperLayout, PiecesBeginWhereThePanelsSay) {
  for (const int rows : {64, 128})
    for (int column = 0; column < 128; column += kProductDepth) {
      const std::uint32_t panel = static_cast<std::uint32_t>(column / kPanelColumns * rows * 128);
      EXPECT_EQ(piece_offset(column, rows), panel + column % kPanelColumns * 2);
      EXPECT_EQ(panel % kSwizzleBytes, 0u);
    }
}

TEST(HopperLayout, RegistersOfAllRolesFitTheBlock) {
  const auto fits = []<class Config>(Config) {
    return kWarpgroupThreads *
                   (Config::kProducerRegisters + Config::kConsumers * Config::kConsumerRegisters) <=
               65536 &&
           sizeof(HopperStorage<Config>) <= 227 * 1024;
  };
  EXPECT_TRUE(fits(HopperConfig<bf16, 128, 128, 128, 128, 2>{}));
  EXPECT_TRUE(fits(HopperConfig<bf16, 128, 128, 64, 64, 4>{}));
  EXPECT_TRUE(fits(HopperConfig<bf16, 128, 128, 192, 128, 2>{}));
}

TEST(PersistentSchedule, EveryItemOnce) {
  for (const int blocks : {1, 2, 3, 7, 132})
    for (const int items : {1, 2, 6, 7, 8, 131, 132, 133, 500}) {
      std::vector<int> taken(static_cast<std::size_t>(items), 0);
      for (int block = 0; block < blocks; ++block)
        for (int round = 0; round < rounds_of(items, blocks); ++round) {
          const int item = item_of(block, blocks, round);
          ASSERT_GE(item, 0);
          if (item < items) ++taken[static_cast<std::size_t>(item)];
        }
      EXPECT_EQ(std::count(taken.begin(), taken.end(), 1), items) << blocks << " blocks";
    }
}

// Groups of heads come one after the other, and all of one group's heads of a row tile together.
// They take turns at going up and down, and the last goes down.
TEST(PersistentSchedule, ItemsAreTilesTimesMatrices) {
  const std::uint16_t order[] = {2, 0, 1};
  for (const int together : {1, 2, 3, 4, 5})
    for (const std::uint16_t* given : {order, static_cast<const std::uint16_t*>(nullptr)}) {
      std::set<std::pair<int, int>> seen;
      const PersistentOrder items = PersistentOrder::of(3, 5, together);
      for (int group = 0, item = 0; group * together < 5; ++group) {
        const int first = group * together, size = std::min(together, 5 - first);
        for (int i = 0; i < 3 * size; ++i, ++item) {
          const PersistentItem at = items.at(item, given);
          const bool up = (items.groups - group) % 2 == 0;
          const int place = up ? 2 - i / size : i / size;
          EXPECT_EQ(at.row_tile, given != nullptr ? order[place] : 2 - place);
          EXPECT_EQ(at.matrix, first + i % size);
          seen.emplace(at.row_tile, at.matrix);
        }
      }
      EXPECT_EQ(seen.size(), 15u) << together;
    }
}

// Keys and values of a head of 16,384 rows are 8 MiB.
TEST(PersistentSchedule, GroupsOfHeadsFitL2) {
  constexpr std::int64_t kL2 = 50 << 20;
  const auto together = [](StepShape shape, int blocks = 132) {
    return matrices_together(shape, tiles_for(shape.rows_q, 128), blocks, kL2);
  };
  EXPECT_EQ(together({1, 16, 16, 16384, 16384, 128}), 4);
  EXPECT_EQ(together({1, 64, 8, 16384, 16384, 128}), 32);  // four groups of eight query heads
  EXPECT_EQ(together({1, 64, 8, 8192, 8192, 128}), 64);    // all fit
  EXPECT_EQ(together({3, 16, 16, 4096, 16384, 128}), 16);  // three rounds of 132 items need 13
  EXPECT_EQ(together({2, 2, 1, 1 << 20, 1 << 20, 128}, 1), 2);
  EXPECT_EQ(together({1, 4, 2, 128, 0, 64}), 4);
  for (const StepShape& empty : {StepShape{0, 4, 4, 128, 128, 64}, StepShape{1, 4, 4, 0, 128, 64}})
    EXPECT_EQ(PersistentOrder::of(tiles_for(empty.rows_q, 128), empty.batch * empty.heads,
                                  together(empty))
                  .items,
              0);
}

TEST(PersistentSchedule, PlacesAreThoseOfAStableSortLongestFirst) {
  const std::vector<std::vector<std::uint16_t>> all = {
      {5}, {1, 2, 3, 4}, {4, 4, 4}, {0, 9, 0, 9, 3}, {7, 6, 6, 1, 65535, 0, 0}};
  for (const std::vector<std::uint16_t>& costs : all) {
    const int tiles = static_cast<int>(costs.size());
    std::vector<int> expected(costs.size());
    std::iota(expected.begin(), expected.end(), 0);
    std::stable_sort(expected.begin(), expected.end(),
                     [&](int a, int b) { return costs[a] > costs[b]; });
    for (int place = 0; place < tiles; ++place)
      EXPECT_EQ(place_by_cost(costs.data(), tiles, expected[place]), place);
  }
}

// A causal problem of 64 row tiles and 64 heads on 132 blocks: no block has more than 1 % above the
// mean to do, also when heads come in groups.
TEST(PersistentSchedule, ToAndFroBalancesCausal) {
  const int tiles = 64, matrices = 64, blocks = 132;
  std::vector<std::uint16_t> costs(tiles);
  std::iota(costs.begin(), costs.end(), std::uint16_t{1});
  std::vector<std::uint16_t> order(tiles);
  for (int t = 0; t < tiles; ++t)
    order[place_by_cost(costs.data(), tiles, t)] = static_cast<std::uint16_t>(t);
  for (const int together : {64, 32, 24, 16, 8}) {
    const PersistentOrder items = PersistentOrder::of(tiles, matrices, together);
    std::int64_t slowest = 0, sum = 0;
    for (int block = 0; block < blocks; ++block) {
      std::int64_t work = 0;
      for (int round = 0; round < rounds_of(items.items, blocks); ++round) {
        const int item = item_of(block, blocks, round);
        if (item < items.items) work += costs[items.at(item, order.data()).row_tile];
      }
      slowest = std::max(slowest, work);
      sum += work;
    }
    EXPECT_LE(static_cast<double>(slowest), 1.01 * static_cast<double>(sum) / blocks) << together;
  }
}

}  // namespace
}  // namespace ringscope::cuda

// What the CPU's tile loops go through, counted one query and key at a time.
#include "core/tools/cost/amounts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/attention/tiles.h"
#include "core/problem/mask.h"
#include "core/problem/partition.h"
#include "core/tools/cost/measure.h"

namespace ringscope {
namespace {

TileAmounts counted(const Region& region) {
  TileAmounts amounts;
  const Index queries = region.queries.size(), keys = region.keys.size();
  const auto allows = [&](Index i, Index j) {
    return region.mask.allows(region.queries.global_position(i), region.keys.global_position(j));
  };
  for (Index key = 0; key < keys; key += kTileKeys) {
    const Index key_end = std::min(key + kTileKeys, keys);
    bool is_loaded = false;
    for (Index row = 0; row < queries; row += kTileRows) {
      const Index row_end = std::min(row + kTileRows, queries);
      Index first = key_end, last = key, allowed = 0;
      for (Index i = row; i < row_end; ++i)
        for (Index j = key; j < key_end; ++j)
          if (allows(i, j)) {
            first = std::min(first, j);
            last = std::max(last, j + 1);
            ++allowed;
          }
      if (allowed == 0) continue;
      is_loaded = true;
      const Index from = (first - key) / kVectorWidth * kVectorWidth;
      const Index to = round_up(last - key, kVectorWidth);
      amounts.pairs += static_cast<double>((row_end - row) * (to - from));
      amounts.rows += static_cast<double>(row_end - row);
      if (allowed < (row_end - row) * (key_end - key))
        amounts.partial_rows += static_cast<double>(row_end - row);
    }
    if (is_loaded) amounts.keys += static_cast<double>(key_end - key);
  }
  return amounts;
}

TEST(TileAmounts, AreThoseOfEveryPairOneByOne) {
  for (const char* mask : {"full", "causal", "causal+window:100", "window:37", "prefix:300",
                           "causal+documents:300,1,199,200"})
    for (const PartitionKind partition : kAllPartitions)
      for (const int world_size : {1, 3}) {
        const MaskSpec spec = MaskSpec::parse(mask);
        const Partition parts{partition, 700, world_size};
        for (int rank = 0; rank < world_size; ++rank)
          for (int owner = 0; owner < world_size; ++owner) {
            const Region region{spec.for_seqlen(700), parts.rows_of(rank), parts.rows_of(owner)};
            const TileAmounts mine = tile_amounts(region), expected = counted(region);
            ASSERT_EQ(mine.pairs, expected.pairs)
                << mask << " " << name_of(partition) << " " << rank << " of " << world_size
                << ", owner " << owner;
            ASSERT_EQ(mine.rows, expected.rows);
            ASSERT_EQ(mine.partial_rows, expected.partial_rows);
            ASSERT_EQ(mine.keys, expected.keys);
          }
      }
}

// No figure is asserted, only that there is one of each.
TEST(MeasureCpu, FindsFiguresOfAMachine) {
  const CpuFigures figures = measure_cpu({.head_dim = 16,
                                          .backward = true,
                                          .threads = 1,
                                          .world_size = 2,
                                          .block_bytes = Index{1} << 20,
                                          .seconds = 0.01});
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const KernelFigures& kernel = figures.kernel(pass);
    EXPECT_GT(kernel.pair_s, 0);
    EXPECT_TRUE(std::isfinite(kernel.pair_s));
    EXPECT_GE(kernel.row_s, 0);
    EXPECT_GE(kernel.partial_row_s, 0);
    EXPECT_GE(kernel.key_s, 0);
    EXPECT_GT(kernel.value_s, 0);
  }
  EXPECT_GT(figures.add_s, 0);
  EXPECT_GT(figures.start_s, 0);
  EXPECT_GT(figures.hops.hop_s, 0);
  EXPECT_GE(figures.hops.byte_s, 0);
  const Rates rates = measure_rates(16, DType::f32, 1);
  for (const double rate :
       {rates.forward_flops, rates.backward_flops, rates.bytes_per_s, rates.latency_s}) {
    EXPECT_GT(rate, 0);
    EXPECT_LT(rate, 1e15);
  }
}

}  // namespace
}  // namespace ringscope

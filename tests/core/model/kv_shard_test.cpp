#include "core/model/decode_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace ringscope {
namespace kv_shard_test {

constexpr AttentionParams kParams{{.batch = 2, .num_heads = 4, .num_heads_kv = 2, .head_dim = 3}};

// A value that says where it belongs.
float value_at(Index b, Index h, Index position, Index x) {
  return static_cast<float>(((b * 2 + h) * 1024 + position) * 4 + x);
}

std::vector<float> rows_of(const std::vector<Index>& positions, float sign) {
  std::vector<float> rows;
  for (Index b = 0; b < 2; ++b)
    for (Index h = 0; h < 2; ++h)
      for (const Index position : positions)
        for (Index x = 0; x < 3; ++x) rows.push_back(sign * value_at(b, h, position, x));
  return rows;
}

TEST(KvShard, HoldsThePromptAsItWasDealtOutAndThenEveryNthPosition) {
  constexpr Index kPrompt = 301, kGenerated = 400;
  for (const PartitionKind kind : kAllPartitions)
    for (const int n : {1, 2, 3, 8}) {
      const Partition prompt{kind, kPrompt, n};
      std::set<Index> held;
      for (int rank = 0; rank < n; ++rank) {
        KvShard shard(kParams, prompt, rank, nullptr);
        std::vector<Index> positions;
        const LocalRows rows = prompt.rows_of(rank);
        for (Index i = 0; i < rows.size(); ++i) positions.push_back(rows.global_position(i));
        shard.fill(rows_of(positions, 1).data(), rows_of(positions, -1).data());
        const float* const first_page = shard.keys(0, 0, 0);
        for (Index p = kPrompt; p < kPrompt + kGenerated; ++p) {
          ASSERT_EQ(shard.positions(), p);
          shard.append(rows_of({p}, 1).data(), rows_of({p}, -1).data());
          if ((p - kPrompt) % n == rank) positions.push_back(p);
        }
        EXPECT_EQ(shard.keys(0, 0, 0), first_page) << "what was there has been moved";

        ASSERT_EQ(shard.rows(), std::ssize(positions));
        for (Index row = 0; row < shard.rows(); ++row)
          for (Index b = 0; b < 2; ++b)
            for (Index h = 0; h < 2; ++h)
              for (Index x = 0; x < 3; ++x) {
                const Index page = row / KvShard::kPageRows, at = row % KvShard::kPageRows;
                const float expected = value_at(b, h, positions[row], x);
                ASSERT_EQ(shard.keys(page, b, h)[x * KvShard::kPageRows + at], expected);
                ASSERT_EQ(shard.values(page, b, h)[at * shard.value_stride() + x], -expected);
              }
        for (Index first = 0; first <= kPrompt + kGenerated; first += 7)
          for (const Index last : {first, first + 1, first + 64, kPrompt + kGenerated}) {
            const auto below = [&](Index position) {
              return std::lower_bound(positions.begin(), positions.end(), position) -
                     positions.begin();
            };
            ASSERT_EQ(shard.rows_within({first, last}), (Interval{below(first), below(last)}));
          }
        held.insert(positions.begin(), positions.end());
      }
      EXPECT_EQ(std::ssize(held), kPrompt + kGenerated);
    }
}

// K and V of the rows in whole pages, their padding included, and not a page more.
TEST(KvShard, TakesMemoryByPages) {
  MemoryMeter meter;
  KvShard shard(kParams, {PartitionKind::contiguous, 1, 1}, 0, &meter);
  const std::vector<float> row(12);
  const Index page = 4 * 2 * 2 * KvShard::kPageRows * (3 + round_up(3, kVectorWidth));
  shard.fill(row.data(), row.data());
  for (Index rows = 1; rows < 1000; ++rows) {
    ASSERT_EQ(shard.bytes(), page * ceil_div(rows, KvShard::kPageRows));
    ASSERT_EQ(meter.peak_bytes(), shard.bytes());
    shard.append(row.data(), row.data());
  }
}

}  // namespace kv_shard_test
}  // namespace ringscope

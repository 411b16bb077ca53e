// Amounts of work and traffic against counts: of the CPU's tile loops, one query and key at a time,
// of every rank's share, and of Ulysses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "core/attention/tiles.h"
#include "core/base/random.h"
#include "core/problem/mask.h"
#include "core/problem/partition.h"
#include "core/problem/region.h"
#include "core/ring/ring.h"
#include "core/tools/cost/amounts.h"
#include "core/tools/cost/balance.h"
#include "core/tools/cost/choices.h"
#include "core/tools/cost/measure.h"
#include "tests/core/base/thrown.h"

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

// ---
// Balance under masks of many documents, of which plan looks at a sample.

// Lengths from 1 to 2 x mean, by chance.
std::string many_documents(Index seqlen, int mean) {
  std::string mask = "causal+documents:";
  Index left = seqlen;
  for (std::uint64_t i = 0; left > 0; ++i) {
    const auto drawn =
        static_cast<Index>(random_bits(3, 0, i) % static_cast<std::uint64_t>(2 * mean));
    const Index length = min_of(1 + drawn, left);
    left -= length;
    mask += std::to_string(length) + (left > 0 ? "," : "");
  }
  return mask;
}

double slowest_steps_counted(const Problem& job) {
  const Mask mask = job.mask.for_seqlen(job.shape.seqlen);
  const Partition partition = job.partition_of_sequence();
  double sum = 0;
  for (int step = 0; step < job.world_size; ++step) {
    Index slowest = 0;
    for (int rank = 0; rank < job.world_size; ++rank) {
      const int owner = RingSchedule{rank, job.world_size}.owner(step);
      slowest =
          max_of(slowest, Region{mask, partition.rows_of(rank), partition.rows_of(owner)}.pairs());
    }
    sum += static_cast<double>(slowest);
  }
  return sum;
}

TEST(Balance, OfManyDocumentsIsSampledWhateverTheWorldSize) {
  Problem job;
  job.shape.seqlen = 1 << 17;
  job.mask = MaskSpec::parse(many_documents(job.shape.seqlen, 150));
  bool sampled = false;
  for (const PartitionKind kind : kAllPartitions)
    for (const int n : {1, 2, 3, 5, 8, 20, 31, 33, 40, 64}) {
      job.partition = kind;
      job.world_size = n;
      const Balance balance = balance_of(job);
      EXPECT_EQ(std::ssize(balance.steps), n) << name_of(kind);
      EXPECT_EQ(balance.mean_rank, total_pairs(job) / n) << name_of(kind);
      const double counted = slowest_steps_counted(job);
      EXPECT_NEAR(balance.slowest_steps(), counted, (balance.sampled ? 0.1 : 0) * counted)
          << name_of(kind) << " on " << n;
      sampled = sampled || balance.sampled;
    }
  EXPECT_TRUE(sampled);
}

// ---
// Dealing out heads, of which there is no run here: compared with a count that moves row by row.

Problem ulysses(int world_size, PartitionKind partition = PartitionKind::contiguous) {
  return {.shape = {2, 8, 4, 61, 5},
          .dtype = DType::bf16,
          .mask = MaskSpec::parse("causal"),
          .partition = partition,
          .world_size = world_size,
          .scheme = scheme_named("ulysses"),
          .backward = true};
}

// Every (row, head) of one tensor goes from the rank that holds the row to the one that holds the
// head, or back; what `rank` sends of it, in values.
double values_sent(const Problem& job, Index heads, int rank, bool to_heads) {
  const Partition partition = job.partition_of_sequence();
  const Index heads_a_rank = heads / job.world_size;
  double values = 0;
  for (int holder = 0; holder < job.world_size; ++holder)
    for (Index row = 0; row < partition.rows_of(holder).size(); ++row)
      for (Index head = 0; head < heads; ++head) {
        const int other = static_cast<int>(head / heads_a_rank);
        const int from = to_heads ? holder : other, to = to_heads ? other : holder;
        if (from == rank && to != rank) values += static_cast<double>(job.shape.head_dim);
      }
  return values * static_cast<double>(job.shape.batch);
}

TEST(Ulysses, SendsWhatACountOfRowsAndHeadsSends) {
  for (const PartitionKind partition : kAllPartitions)
    for (const int n : {1, 2, 4})
      for (int rank = 0; rank < n; ++rank) {
        const Problem job = ulysses(n, partition);
        const auto sent = [&](Index heads, bool to_heads) {
          return 2 * values_sent(job, heads, rank, to_heads);  // bf16
        };
        const Traffic traffic = traffic_of(job, rank);
        EXPECT_DOUBLE_EQ(traffic.forward_bytes, sent(8, true) + 2 * sent(4, true) + sent(8, false));
        EXPECT_DOUBLE_EQ(traffic.backward_bytes,
                         sent(8, true) + sent(8, false) + 2 * sent(4, false));
        EXPECT_EQ(traffic.hops, n == 1 ? 0 : 4);
      }
}

TEST(Ulysses, DealsOutTheWorkEvenlyUnderEveryMask) {
  for (const char* mask : {"full", "causal", "causal+window:5", "documents:60,1"}) {
    Problem job = ulysses(4);
    job.mask = MaskSpec::parse(mask);
    const Balance balance = balance_of(job);
    EXPECT_EQ(balance.ceiling(), 1);
    EXPECT_EQ(balance.imbalance(), 1);
    EXPECT_EQ(Balance{}.imbalance(), 1);  // of no pairs
    EXPECT_EQ(balance.slowest_steps() * 4, total_pairs(job));
  }
}

TEST(Ulysses, NeedsAHeadForEachRank) {
  for (const int n : {3, 4, 8}) EXPECT_EQ(obstacle(ulysses(n), 1e12), std::nullopt);
  const auto heads = obstacle(ulysses(9), 1e12);
  ASSERT_TRUE(heads);
  expect_contains(*heads, "8 heads");
}

TEST(Ulysses, HoldsItsOwnRowsAndTheOthersRowsOfItsHeads) {
  const Problem one = ulysses(1);
  // Alone there is nothing on its way, and the bill is the ring's of one rank.
  Problem ring = one;
  ring.scheme = scheme_named("ring");
  EXPECT_EQ(peak_bytes(one), peak_bytes(ring));
  // Q, dO in bf16, output and dQ in f32, 20 bytes of statistics; K, V in bf16, dK, dV in f32: of 16
  // rows of all heads, and of three ranks' 16 rows of a quarter of them. One share of dK and dV more
  // is what comes in to be added.
  const double rows = 2 * 16 * (8 + 3 * 2), kv_rows = 2 * 16 * (4 + 3 * 1);
  const double held = rows * (5 * (2 + 2 + 4 + 4) + 20) + 2 * kv_rows * 5 * (2 + 4);
  const double to_add = 2 * (2 * 16 * 1) * 5 * 4;
  const auto parts = memory_parts(ulysses(4), 16);
  EXPECT_EQ(total_bytes(parts) - parts.back().bytes, held + to_add);  // the scratch is the last
}

TEST(AllGather, InSlicesHoldsAShareOfTheHeadsOfEachOtherBlock) {
  Problem job = ulysses(4);
  set_scheme(job, "allgather:2");
  for (const MemoryPart& part : memory_parts(job, 16)) {
    if (part.kind != MemoryPart::Kind::kv_inside) continue;
    // K and V in bf16: 16 rows of two heads of each of three ranks.
    EXPECT_EQ(part.bytes, 3 * 2 * (2 * 16 * 2 * 5) * 2);
    EXPECT_EQ(part.buffers, 3);
    return;
  }
  ADD_FAILURE() << "no blocks of others";
}

TEST(Ulysses, SmallestWorldSizeDividesTheHeads) {
  const Problem job = ulysses(1);
  Problem four = job;
  four.world_size = 4;
  const double enough_for_four = peak_bytes(four);
  EXPECT_EQ(smallest_world_size(job, enough_for_four), 4);
  EXPECT_EQ(smallest_world_size(job, 1e12), 1);
  EXPECT_EQ(smallest_world_size(job, enough_for_four - 1), std::nullopt);
}

}  // namespace
}  // namespace ringscope

// Dealing out heads, of which there is no run here: compared with a count that moves row by row.
#include <gtest/gtest.h>

#include <optional>

#include "core/tools/cost/amounts.h"
#include "core/tools/cost/balance.h"
#include "core/tools/cost/choices.h"
#include "tests/core/base/thrown.h"

namespace ringscope {
namespace {

Problem ulysses(int world_size, PartitionKind partition = PartitionKind::contiguous) {
  return {.shape = {2, 8, 4, 61, 5},
          .dtype = DType::bf16,
          .mask = MaskSpec::parse("causal"),
          .partition = partition,
          .world_size = world_size,
          .scheme = Scheme::ulysses,
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
  ring.scheme = Scheme::ring;
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

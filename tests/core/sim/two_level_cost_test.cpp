// Two-level rings in the closed forms: balance by step, memory, limits.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "core/base/error.h"
#include "core/cost/amounts.h"
#include "core/cost/balance.h"
#include "core/cost/choices.h"
#include "core/cost/time.h"
#include "core/ring/two_level.h"
#include "core/sim/work.h"

namespace ringscope {
namespace {

Problem job_of(int nodes, int places, const char* mask = "causal",
               PartitionKind partition = PartitionKind::contiguous) {
  return {.shape = {1, 4, 2, 1023, 16},
          .dtype = DType::bf16,
          .mask = MaskSpec::parse(mask),
          .partition = partition,
          .world_size = nodes * places,
          .scheme = Scheme::two_level,
          .backward = true,
          .nodes = nodes};
}

std::vector<double> slowest_by_step(const Problem& job) {
  const Work work(job);
  const int places = job.ranks_a_node();
  std::vector<double> slowest(static_cast<std::size_t>(job.world_size));
  for (int rank = 0; rank < job.world_size; ++rank)
    for (int step = 0; step < job.world_size; ++step) {
      const int owner =
          TwoLevelSchedule{rank, job.nodes, places}.owner(step / places, step % places);
      double& here = slowest[static_cast<std::size_t>(step)];
      here = std::max(here, work.pairs(rank, owner));
    }
  return slowest;
}

TEST(TwoLevelCost, BalanceIsThatOfEveryStep) {
  for (const auto& [nodes, places] : {std::pair{1, 6}, {6, 1}, {3, 4}, {4, 3}, {2, 8}})
    for (const char* mask : {"full", "causal", "causal+window:100", "causal+documents:1000,23"})
      for (const PartitionKind partition : kAllPartitions) {
        const Problem job = job_of(nodes, places, mask, partition);
        const Balance balance = balance_of(job);
        EXPECT_FALSE(balance.sampled);
        const std::vector<double> told = slowest_by_step(job);
        ASSERT_EQ(balance.steps.size(), told.size());
        for (std::size_t step = 0; step < told.size(); ++step) {
          EXPECT_EQ(balance.steps[step].slowest, told[step]);
          EXPECT_EQ(balance.steps[step].has_hop, step + 1 < told.size());
        }
        EXPECT_EQ(balance.mean_rank, total_pairs(job) / job.world_size);
        Problem flat = job;
        flat.scheme = Scheme::ring;
        EXPECT_EQ(balance.slowest_rank, balance_of(flat).slowest_rank);
      }
}

// Of more ranks than are counted one by one, step by step still.
TEST(TwoLevelCost, BalanceOfManyRanksIsCloseToThatOfEveryStep) {
  for (const auto& [nodes, places] : {std::pair{40, 8}, {8, 40}, {2, 150}})
    for (const char* mask : {"full", "causal", "causal+window:9000"})
      for (const PartitionKind partition : kAllPartitions) {
        SCOPED_TRACE(testing::Message()
                     << nodes << " x " << places << ", " << mask << ", " << name_of(partition));
        Problem job = job_of(nodes, places, mask, partition);
        job.shape.seqlen = 64 * job.world_size;
        const Balance balance = balance_of(job);
        EXPECT_TRUE(balance.sampled);
        const std::vector<double> told = slowest_by_step(job);
        ASSERT_EQ(balance.steps.size(), told.size());
        double sum = 0;
        for (const double slowest : told) sum += slowest;
        EXPECT_NEAR(balance.slowest_steps() / sum, 1, 0.02);
      }
}

TEST(TwoLevelCost, BalanceOfTenThousandRanksTakesNoTime) {
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& [nodes, places] : {std::pair{1250, 8}, {100, 100}}) {
    Problem job = job_of(nodes, places);
    job.shape.seqlen = Index{1} << 24;
    EXPECT_EQ(balance_of(job).steps.size(), 10000u);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(TwoLevelCost, HoldsBuffersForBothLevels) {
  const auto bytes_beside_ring = [](Problem job) {
    Problem ring = job;
    ring.scheme = Scheme::ring;
    return peak_bytes(job) - peak_bytes(ring);
  };
  Problem job = job_of(4, 4);
  const double kv = 2 * kv_values(job.shape, 64) * 2, gradient = kv * 2;
  // Own block, two between nodes, two inside, for the ring's own and two; and two sums.
  EXPECT_EQ(bytes_beside_ring(job), 2 * kv + 2 * gradient);
  job.backward = false;
  EXPECT_EQ(bytes_beside_ring(job), 2 * kv);
  job.kv_buffers = 3;
  EXPECT_EQ(bytes_beside_ring(job), 3 * kv);
  for (const auto& [nodes, places] : {std::pair{1, 1}, {1, 6}, {6, 1}})
    EXPECT_EQ(bytes_beside_ring(job_of(nodes, places)), 0);
}

TEST(TwoLevelCost, LimitsKeepNodesEqual) {
  const Problem job = job_of(4, 2);
  EXPECT_EQ(obstacle(job, 1e12), std::nullopt);
  Problem uneven = job;
  uneven.nodes = 3;
  EXPECT_EQ(obstacle(uneven, 1e12), "8 ranks do not divide by 3 nodes");
  EXPECT_THROW(balance_of(uneven), InputError);
  uneven.nodes = 9;
  EXPECT_EQ(obstacle(uneven, 1e12), "8 ranks do not divide by 9 nodes");
  EXPECT_EQ(smallest_world_size(job, 1e12), 4);
  Problem twelve = job;
  twelve.world_size = 12;
  EXPECT_EQ(smallest_world_size(job, peak_bytes(twelve)), 12);
  EXPECT_EQ(smallest_world_size(job, peak_bytes(twelve) - 1), 16);
  EXPECT_EQ(smallest_world_size(job, 1), std::nullopt);
  EXPECT_GE(largest_seqlen(job, peak_bytes(job)), job.shape.seqlen);
}

TEST(TwoLevelCost, LayerTimeTakesItsClosedForm) {
  const Problem job = job_of(4, 2);
  const Rates rates{1e9, 1e9, 1e8, 1e-6};
  const Balance balance = balance_of(job);
  EXPECT_EQ(layer_time(job, balance, rates).total(),
            two_level_time(job, balance, rates, {"", 1e8, 1e-6}).total());
}

}  // namespace
}  // namespace ringscope

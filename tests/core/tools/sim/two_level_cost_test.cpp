// Two-level rings by formula: memory and limits.
#include <gtest/gtest.h>

#include "core/tools/cost/amounts.h"
#include "core/tools/cost/choices.h"

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

}  // namespace
}  // namespace ringscope

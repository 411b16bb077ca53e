// Dealing out heads, simulated: what happens where ranks are not equal. (Where they are:
// tests/crossings/foreseen_test.cpp.)
#include <gtest/gtest.h>

#include <algorithm>

#include "core/tools/cost/amounts.h"
#include "core/tools/sim/machine.h"
#include "tests/core/tools/sim/random_machines.h"

namespace ringscope {
namespace ulysses_test {

const Rates kRates{1e9, 0.7e9, 3e7, 2e-6};

Problem job_of(int world_size, const char* mask = "causal",
               PartitionKind partition = PartitionKind::contiguous) {
  return {.shape = {2, 8, 8, 203, 8},
          .dtype = DType::bf16,
          .mask = MaskSpec::parse(mask),
          .partition = partition,
          .world_size = world_size,
          .scheme = scheme_named("ulysses"),
          .backward = true};
}

Machine machine_of(int world_size) {
  Machine machine;
  machine.world_size = world_size;
  machine.rates = kRates;
  return machine;
}

Simulation run(const Problem& job, const Machine& machine) {
  return simulate({job}, Work(job), machine);
}

TEST(SimulatedUlysses, AllWaitForTheSlowestAtEachAllToAll) {
  const Problem job = job_of(4, "full");
  const double all = run(job, machine_of(4)).wall_s();
  Machine machine = machine_of(4);
  machine.speed = {1, 1, 0.5, 1};
  const Simulation slow = run(job, machine);
  const double pairs = total_pairs(job) / 4;
  const double computing = flops_of_pairs(job.shape, pairs, Pass::forward) / 1e9 +
                           flops_of_pairs(job.shape, pairs, Pass::backward) / 0.7e9;
  EXPECT_NEAR(slow.wall_s(), all + computing, 1e-12);
  EXPECT_NEAR(slow.ranks[0].wait_s - slow.ranks[2].wait_s, computing, 1e-12);
  EXPECT_NE(std::find(slow.path.ranks.begin(), slow.path.ranks.end(), 2), slow.path.ranks.end());

  // One narrow way: twice as long, whoever else is ready.
  machine = machine_of(4);
  machine.to_all.assign(4, {kRates.bytes_per_s, 0});
  const double even = run(job, machine).wall_s();
  machine.to_all[1].bytes_per_s /= 2;
  const AllToAlls forward = all_to_alls_of(job, Pass::forward, 1);
  const AllToAlls backward = all_to_alls_of(job, Pass::backward, 1);
  const double bytes =
      forward.there_bytes + forward.back_bytes + backward.there_bytes + backward.back_bytes;
  EXPECT_NEAR(run(job, machine).wall_s() - even, bytes / kRates.bytes_per_s, 0.02 * even);
}

TEST(SimulatedUlysses, JitterIsTheLargestDrawn) {
  Problem job = job_of(8, "full");
  job.backward = false;
  Machine machine = machine_of(8);
  const Simulation even = run(job, machine);
  machine.jitter = 0.3;
  machine.seed = 5;
  double most = 0;
  for (int rank = 0; rank < 8; ++rank)
    most = std::max(most, jitter_draw(5, JitterOf::compute, Pass::forward, rank, 0));
  EXPECT_NEAR(run(job, machine).wall_s(), even.wall_s() + 0.3 * most * even.path.compute_s, 1e-12);
}

// A kernel that works by tiles has the same tiles whoever held the rows before.
TEST(SimulatedUlysses, TilesAreThoseOfTheWholeSequence) {
  Problem job = job_of(4);
  job.backward = false;
  job.shape.seqlen = 256;
  double first = 0;
  for (const PartitionKind partition : kAllPartitions) {
    job.partition = partition;
    const Simulation done = simulate({job}, Work(job, {64, 64}), machine_of(4));
    // 10 of 16 tiles.
    EXPECT_NEAR(done.path.compute_s,
                flops_of_pairs(job.shape, 10 * 64 * 64 / 4.0, Pass::forward) / 1e9, 1e-12);
    if (first == 0) first = done.wall_s();
    EXPECT_EQ(done.wall_s(), first);
  }
}

}  // namespace ulysses_test
}  // namespace ringscope

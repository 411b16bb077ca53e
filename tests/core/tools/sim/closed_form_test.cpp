// In step, on equal ranks and links, without chance: the closed form, but for rounding.
#include <gtest/gtest.h>

#include "core/tools/cost/amounts.h"
#include "core/tools/cost/time.h"
#include "core/tools/sim/simulate.h"

namespace ringscope {
namespace {

constexpr const char* kMasks[] = {
    "full",
    "causal",
    "window:40",
    "prefix:70",
    "causal+window:17",
    "causal+documents:50,1,10,36",
    "documents:36,50,11+window:30",
};
constexpr Index kPositions = 97;

// In which neither computing nor sending always wins.
const Rates kRates{1e10, 7e9, 3e8, 2e-6};

template <class F>
void for_jobs(F&& f) {
  int turn = 0;  // of storage types and grouped heads
  for (const char* mask : kMasks)
    for (const PartitionKind partition : kAllPartitions)
      for (const int world_size : {1, 2, 3, 5, 8, 64, 103}) {
        const DType dtype = turn % 2 == 0 ? DType::f32 : DType::bf16;
        const Index num_heads_kv = turn++ % 3 == 0 ? 2 : 6;
        SCOPED_TRACE(testing::Message()
                     << mask << ", " << name_of(partition) << ", " << world_size << " ranks, "
                     << name_of(dtype) << ", " << num_heads_kv << " kv heads");
        f(Problem{.shape = {2, 6, num_heads_kv, kPositions, 16},
                  .dtype = dtype,
                  .mask = MaskSpec::parse(mask),
                  .partition = partition,
                  .world_size = world_size,
                  .backward = true});
      }
}

Simulation simulated(const Problem& job, const Rates& rates) {
  Machine machine;
  machine.world_size = job.world_size;
  machine.rates = rates;
  return simulate({.job = job}, Work(job), machine);
}

// The closed form adds up hops that follow each other, and a gatherer's work, before time passes.
void expect_same(const Simulation& simulation, const LayerTime& time) {
  const double rounding = 2e-14 * simulation.wall_s();
  EXPECT_NEAR(simulation.forward_s, time.forward.total(), rounding);
  EXPECT_NEAR(simulation.backward_s, time.backward.total(), rounding);
}

TEST(ClosedForm, OfARingIsTheSimulationInStep) {
  int compared = 0;
  for_jobs([&](const Problem& job) {
    const Balance balance = balance_of(job);
    if (balance.sampled) return;
    const LayerTime time = layer_time(job, balance, kRates);
    const Simulation simulation = simulated(job, kRates);
    expect_same(simulation, time);
    EXPECT_EQ(simulation.slowest_step_pairs, balance.slowest_steps());
    EXPECT_EQ(simulation.mean_step_pairs, balance.mean_rank);
    EXPECT_NEAR(time.forward.compute + time.forward.imbalance + time.forward.exposed,
                time.forward.total(), 1e-12 * time.forward.total());
    EXPECT_NEAR(time.backward.compute + time.backward.imbalance + time.backward.exposed,
                time.backward.total(), 1e-12 * time.backward.total());
    ++compared;
  });
  EXPECT_GE(compared, 175);  // of 196: some of many documents are sampled
}

TEST(ClosedForm, OfGatheringIsTheSimulationInStep) {
  for_jobs([](Problem job) {
    job.scheme = Scheme::allgather;
    const Balance balance = balance_of(job);
    if (balance.sampled) return;
    const LayerTime time = layer_time(job, balance, kRates);
    const Simulation simulation = simulated(job, kRates);
    expect_same(simulation, time);
  });
}

}  // namespace
}  // namespace ringscope

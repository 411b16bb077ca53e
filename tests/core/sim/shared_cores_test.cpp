// Ranks that share processors: by graphs small enough to be followed by hand, and by what holds for
// all of them.
#include "core/sim/shared_cores.h"

#include <gtest/gtest.h>

#include <numeric>

#include "core/base/error.h"
#include "tests/core/sim/own_processors.h"

namespace ringscope {
namespace {

// Computations that wait for nobody.
LoopGraph independent(int tasks) {
  LoopGraph graph;
  graph.world_size = tasks;
  graph.tasks.resize(static_cast<std::size_t>(tasks));
  graph.order.resize(graph.tasks.size());
  std::iota(graph.order.begin(), graph.order.end(), 0);
  return graph;
}

TEST(SharedCores, EverybodyGetsTheSamePart) {
  // On one processor: all three until the shortest has its 1 at time 3, then two, then one.
  const LoopTimes times = times_on_shared_cores(independent(3), {{1, 2, 4}}, 1);
  EXPECT_DOUBLE_EQ(times.tasks[0].end, 3);
  EXPECT_DOUBLE_EQ(times.tasks[1].end, 5);
  EXPECT_DOUBLE_EQ(times.tasks[2].end, 7);
  EXPECT_EQ(times.forward_s, times.tasks[2].end);
}

TEST(SharedCores, NobodyGetsMoreThanOneProcessor) {
  // On two: 2/3 each until 1.5, then one each.
  const LoopTimes times = times_on_shared_cores(independent(3), {{1, 2, 4}}, 2);
  EXPECT_DOUBLE_EQ(times.tasks[0].end, 1.5);
  EXPECT_DOUBLE_EQ(times.tasks[1].end, 2.5);
  EXPECT_DOUBLE_EQ(times.tasks[2].end, 4.5);
}

TEST(SharedCores, WhoComesLaterSharesFromThenOn) {
  LoopGraph graph = independent(3);
  graph.tasks[2].after = {0};
  // 0 and 1 have half each until 2; then 1, who has had 1 of 4, and 2.
  const LoopTimes times = times_on_shared_cores(graph, {{1, 4, 2}}, 1);
  EXPECT_DOUBLE_EQ(times.tasks[0].end, 2);
  EXPECT_DOUBLE_EQ(times.tasks[2].begin, 2);
  EXPECT_DOUBLE_EQ(times.tasks[2].end, 6);
  EXPECT_DOUBLE_EQ(times.tasks[1].end, 7);
}

TEST(SharedCores, HopsMoveBesideProcessorsOrOnThem) {
  LoopGraph graph = independent(2);
  graph.tasks[1].kind = LoopTask::Kind::hop;
  const LoopTimes beside = times_on_shared_cores(graph, {{2, 1}, false}, 1);
  EXPECT_DOUBLE_EQ(beside.tasks[0].end, 2);
  EXPECT_DOUBLE_EQ(beside.tasks[1].end, 1);
  const LoopTimes on = times_on_shared_cores(graph, {{2, 1}, true}, 1);
  EXPECT_DOUBLE_EQ(on.tasks[1].end, 2);
  EXPECT_DOUBLE_EQ(on.tasks[0].end, 3);
}

TEST(SharedCores, AHostThatComputesPostsItsHopsAfterwards) {
  LoopGraph graph = independent(2);
  graph.tasks[1].kind = LoopTask::Kind::hop;
  graph.tasks[1].posted_after = {0};
  EXPECT_DOUBLE_EQ(times_on_shared_cores(graph, {{2, 1}}, 1).tasks[1].begin, 2);
  EXPECT_DOUBLE_EQ(times_on_own_processors(graph, {2, 1}).tasks[1].begin, 0);
}

Problem job_of(int world_size, const char* mask) {
  Problem job;
  job.shape = {1, 2, 2, 32 * world_size, 16};
  job.mask = MaskSpec::parse(mask);
  job.world_size = world_size;
  return job;
}

Machine machine_of(int world_size, int cores) {
  Machine machine;
  machine.world_size = world_size;
  machine.rates = {1e9, 1e9, 1e8, 1e-6};
  machine.jitter = 0.3;
  machine.cores = cores;
  return machine;
}

TEST(SharedCores, EvenRanksTakeTurns) {
  const int n = 8;
  Machine machine = machine_of(n, 2);
  machine.jitter = 0;
  machine.rates.bytes_per_s = 1e15;
  machine.rates.latency_s = 0;
  const Problem job = job_of(n, "full");
  const SimulationRequest request{.job = job, .pace = Pace::buffers};
  const Work work(job);
  const Simulation shared = simulate_on_shared_cores(request, work, machine);
  machine.cores = 0;
  const Simulation own = simulate(request, work, machine);
  EXPECT_NEAR(shared.wall_s() / own.wall_s(), n / 2.0, 1e-3);
  EXPECT_NEAR(shared.ranks[0].compute_s / own.ranks[0].compute_s, n / 2.0, 1e-3);
}

TEST(SharedCores, AsManyAsRanksAreProcessorsOfTheirOwn) {
  for (const char* mask : {"full", "causal"})
    for (const int n : {1, 2, 7}) {
      const Problem job = job_of(n, mask);
      const SimulationRequest request{.job = job, .pace = Pace::buffers};
      const Work work(job);
      const Simulation shared = simulate_on_shared_cores(request, work, machine_of(n, n));
      const Simulation own = simulate(request, work, machine_of(n, 0));
      EXPECT_EQ(shared.forward_s, own.forward_s);
      for (std::size_t rank = 0; rank < own.ranks.size(); ++rank)
        EXPECT_EQ(shared.ranks[rank].end_s, own.ranks[rank].end_s);
    }
}

TEST(SharedCores, NeverBeatsTheWorkNorProcessorsOfTheirOwn) {
  for (const bool backward : {false, true})
    for (const int cores : {1, 2, 3}) {
      Problem job = job_of(6, "causal");
      job.backward = backward;
      const LoopGraph graph = graph_of_loops(job);
      const Work work(job);
      const SimulationRequest request{.job = job, .pace = Pace::buffers, .with_path = true};
      const Machine machine = machine_of(6, cores);
      Account account(request, work, machine);
      const std::vector<double> seconds = task_seconds(graph, account);
      double work_s = 0;
      for (std::size_t i = 0; i < seconds.size(); ++i)
        work_s += graph.tasks[i].is_hop() ? 0 : seconds[i];
      const Simulation shared = simulate_on_shared_cores(request, work, machine);
      const LoopTimes own = times_on_own_processors(graph, seconds);
      EXPECT_GE(shared.wall_s() * (1 + 1e-12), work_s / cores);
      EXPECT_GE(shared.forward_s * (1 + 1e-12), own.forward_s);
      EXPECT_NEAR(shared.path.compute_s + shared.path.hop_s, shared.wall_s(),
                  1e-12 * shared.wall_s());
      if (cores == 1) {  // then hops hide, mostly
        EXPECT_LE(shared.wall_s(), work_s * 1.2);
      }
    }
}

TEST(SharedCores, RefusesRanksInStepAndNoProcessors) {
  const Problem job = job_of(4, "full");
  const Work work(job);
  EXPECT_THROW(simulate_on_shared_cores({.job = job}, work, machine_of(4, 2)), InputError);
  EXPECT_THROW(
      simulate_on_shared_cores({.job = job, .pace = Pace::buffers}, work, machine_of(4, 0)),
      InputError);
}

}  // namespace
}  // namespace ringscope

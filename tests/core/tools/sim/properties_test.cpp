// What must hold of every simulation, on machines drawn at random.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "core/tools/sim/scenario.h"
#include "core/trace/summary.h"
#include "tests/core/ring/ring_case.h"
#include "tests/core/ring/run_invariants.h"
#include "tests/core/tools/sim/random_machines.h"

namespace ringscope {
namespace {

constexpr int kCases = 100;
constexpr double kRounding = 1e-12;

// f(case, cases): may draw more.
template <class F>
void for_cases(F&& f) {
  const auto seed = static_cast<unsigned>(drawn_seed());
  RandomCases cases(seed);
  for (int i = 0; i < kCases; ++i) {
    RandomCase made = cases.next();
    SCOPED_TRACE("RINGSCOPE_TEST_SEED=" + std::to_string(seed) + ": " + made.text());
    f(made, cases);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Properties, ARankComputesOrWaitsAllItsTime) {
  for_cases([](const RandomCase& made, RandomCases&) {
    const Simulation simulation = simulated(made);
    double last = 0, ends = 0;
    for (const SimulatedRank& rank : simulation.ranks) {
      EXPECT_NEAR(rank.compute_s + rank.wait_s, rank.end_s, kRounding * simulation.wall_s());
      EXPECT_LE(rank.exposed_s, rank.wait_s + kRounding * simulation.wall_s());
      EXPECT_GE(rank.exposed_s, 0);
      EXPECT_LE(rank.compute_s, simulation.wall_s() * (1 + kRounding));
      last = std::max(last, rank.end_s);
      ends += rank.end_s;
    }
    EXPECT_NEAR(last, simulation.wall_s(), kRounding * last);
    const Figures mean_rank = figures_of(simulation);
    EXPECT_NEAR(mean_rank.compute_s + mean_rank.wait_s, ends / made.job.world_size,
                kRounding * last);
  });
}

TEST(Properties, TheCriticalPathIsAsLongAsTheRun) {
  for_cases([](const RandomCase& made, RandomCases&) {
    const Simulation simulation = simulated(made);
    const CriticalPath& path = simulation.path;
    EXPECT_NEAR(path.compute_s + path.hop_s, simulation.wall_s(), 1e-9 * simulation.wall_s());
    ASSERT_FALSE(path.ranks.empty());
    std::vector<int> ranks = path.ranks;
    std::sort(ranks.begin(), ranks.end());
    EXPECT_EQ(std::adjacent_find(ranks.begin(), ranks.end()), ranks.end());
    EXPECT_TRUE(ranks.front() >= 0 && ranks.back() < made.job.world_size);
  });
}

// More bandwidth, faster ranks and less chance, one after the other.
TEST(Properties, ABetterMachineNeverHurts) {
  for_cases([](RandomCase made, RandomCases& cases) {
    Machine& machine = made.machine;
    double before = simulated(made).wall_s();
    const auto expect_no_worse = [&] {
      const double now = simulated(made).wall_s();
      EXPECT_LE(now, before * (1 + kRounding));
      before = now;
    };
    machine.rates.bytes_per_s *= 1 + 3 * cases.share();
    machine.rates.latency_s *= cases.share();
    for (auto* paths : {&machine.to_next, &machine.to_next_here, &machine.to_next_node})
      for (Path& path : *paths)
        if (cases.below(2) == 0) path.bytes_per_s *= 1 + 3 * cases.share();
    expect_no_worse();
    machine.rates.forward_flops *= 1 + cases.share();
    machine.rates.backward_flops *= 1 + cases.share();
    for (double& speed : machine.speed)
      if (cases.below(2) == 0) speed *= 1 + 3 * cases.share();
    expect_no_worse();
    machine.jitter *= 0.5;
    machine.hop_jitter *= 0.5;
    expect_no_worse();
  });
}

// Backward they may: a gradient's hop waits for those of the blocks that were asked for before it.
TEST(Properties, MoreBuffersNeverHurtTheForwardPass) {
  for_cases([](RandomCase made, RandomCases& cases) {
    made.pace = Pace::buffers;
    const double before = simulated(made).forward_s;
    made.job.kv_buffers += 1 + cases.below(made.job.world_size);
    EXPECT_LE(simulated(made).forward_s, before * (1 + kRounding));
  });
}

// Whoever may run ahead is not later; in the order of hops that both have.
TEST(Properties, KeepingStepNeverHelps) {
  for_cases([](RandomCase made, RandomCases&) {
    made.job.kv_buffers = 2;
    made.pace = Pace::buffers;
    const double on_their_own = simulated(made).wall_s();
    made.pace = Pace::in_step;
    EXPECT_LE(on_their_own, simulated(made).wall_s() * (1 + kRounding));
  });
}

// A task that takes longer lets no task end earlier. Where all take twice as long, so does the run, to
// the bit.
TEST(Properties, EveryEndGrowsWithEveryDuration) {
  for_cases([](const RandomCase& made, RandomCases& cases) {
    if (made.job.world_size > 9) return;
    const SimulatedRun run = run_of({made.job, made.pace}, Work(made.job), made.machine);
    const auto ends = [&](const TaskTimes& times) {
      std::vector<double> all = times.end;
      for (std::size_t i = 0; i < all.size(); ++i)
        if (run.graph.tasks[i].pass == Pass::backward) all[i] += times.forward_s;
      return all;
    };
    const TaskTimes times = evaluate(run.graph, run.seconds);
    for (int trial = 0; trial < 5; ++trial) {
      std::vector<double> longer = run.seconds;
      const int task = cases.below(static_cast<int>(longer.size()));
      longer[static_cast<std::size_t>(task)] += times.wall_s() * cases.share();
      const std::vector<double> before = ends(times), after = ends(evaluate(run.graph, longer));
      for (std::size_t i = 0; i < before.size(); ++i)
        EXPECT_GE(after[i] * (1 + kRounding), before[i]) << "task " << i << " after " << task;
    }
    std::vector<double> twice = run.seconds;
    for (double& seconds : twice) seconds *= 2;
    const TaskTimes doubled = evaluate(run.graph, twice);
    for (std::size_t i = 0; i < twice.size(); ++i) EXPECT_EQ(doubled.end[i], 2 * times.end[i]);
    EXPECT_EQ(doubled.wall_s(), 2 * times.wall_s());
  });
}

// Under a full mask ranks with as many rows have as much to do: it is the same run wherever on the ring
// the machine's ranks and links begin.
TEST(Properties, AMachineMayBeTurnedAroundItsRing) {
  for_cases([](RandomCase made, RandomCases& cases) {
    const int n = made.job.world_size;
    if (made.job.scheme == scheme_named("two-level")) return;
    made.job.mask = {};
    made.job.shape.seqlen = 2 * n;
    made.machine.jitter = made.machine.hop_jitter = 0;
    const Simulation before = simulated(made);
    const int turn = cases.below(n);
    const auto turned = [&](auto& of_ranks) {
      if (!of_ranks.empty()) std::rotate(of_ranks.begin(), of_ranks.begin() + turn, of_ranks.end());
    };
    turned(made.machine.speed);
    turned(made.machine.to_next);
    const Simulation after = simulated(made);
    EXPECT_NEAR(after.wall_s(), before.wall_s(), kRounding * before.wall_s());
    for (int rank = 0; rank < n; ++rank)
      EXPECT_NEAR(after.ranks[static_cast<std::size_t>(rank)].wait_s,
                  before.ranks[static_cast<std::size_t>((rank + turn) % n)].wait_s,
                  kRounding * before.wall_s());
  });
}

// In another unit of time it is the same run, to the bit.
TEST(Properties, AMachineTwiceAsFastTakesHalfTheTime) {
  for_cases([](RandomCase made, RandomCases&) {
    const double before = simulated(made).wall_s();
    Machine& machine = made.machine;
    for (double* rate :
         {&machine.rates.forward_flops, &machine.rates.backward_flops, &machine.rates.bytes_per_s})
      *rate *= 2;
    for (double* seconds : {&machine.rates.latency_s, &machine.step_s}) *seconds /= 2;
    for (auto* paths : {&machine.to_next, &machine.to_next_here, &machine.to_next_node})
      for (Path& path : *paths) path.bytes_per_s *= 2, path.latency_s /= 2;
    EXPECT_EQ(2 * simulated(made).wall_s(), before);
  });
}

TEST(Properties, ASeedIsARun) {
  for_cases([](RandomCase made, RandomCases&) {
    made.machine.jitter = made.machine.hop_jitter = 0.5;
    const double before = simulated(made).wall_s();
    EXPECT_EQ(simulated(made).wall_s(), before);
    ++made.machine.seed;
    EXPECT_NE(simulated(made).wall_s(), before);
  });
}

TEST(Properties, ChanceIsOfMeanOneAndADrawForEach) {
  std::vector<double> draws;
  for (const JitterOf what : {JitterOf::compute, JitterOf::kv_hop, JitterOf::gradient_hop})
    for (const Pass pass : {Pass::forward, Pass::backward})
      for (int rank = 0; rank < 60; ++rank)
        for (int step = 0; step < 60; ++step)
          draws.push_back(jitter_draw(7, what, pass, rank, step));
  const double mean = std::accumulate(draws.begin(), draws.end(), 0.0) / draws.size();
  EXPECT_NEAR(mean, 1, 5 / std::sqrt(draws.size()));
  const auto above_one = std::count_if(draws.begin(), draws.end(), [](double x) { return x > 1; });
  EXPECT_NEAR(above_one / static_cast<double>(draws.size()), std::exp(-1), 0.02);
  std::sort(draws.begin(), draws.end());
  EXPECT_GE(draws.front(), 0);
  EXPECT_EQ(std::adjacent_find(draws.begin(), draws.end()), draws.end());
}

// ---
// A simulated run's events: a recording made of them says what the simulation says, and reads like
// that of a real run.

// Return a recording of all that a summary asks for.
Recording recording_of(const RandomCase& made, std::vector<std::vector<TraceEvent>> events) {
  Recording recording;
  recording.info.scheme = name_of(made.job.scheme);
  recording.info.world_size = made.job.world_size;
  recording.events = std::move(events);
  return recording;
}

// Every tenth case deals out heads.
template <class F>
void for_cases(unsigned seed, int count, F&& f) {
  RandomCases cases(seed);
  for (int i = 0; i < count; ++i) {
    RandomCase made = cases.next();
    if (made.job.world_size > 40) continue;
    if (i % 10 == 0) {
      made.job.scheme = scheme_named("ulysses");
      made.job.mask = {};  // whole pairs a rank
      made.job.shape.num_heads_kv = 4;
      made.job.world_size = made.machine.world_size = 1 << i / 10 % 3;
      made.pace = Pace::in_step;
      made.machine.speed.clear();
      for (auto* paths :
           {&made.machine.to_next, &made.machine.to_next_here, &made.machine.to_next_node})
        paths->clear();
    }
    SCOPED_TRACE("seed " + std::to_string(seed) + ", case " + std::to_string(i) + ": " +
                 made.text());
    f(made);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Events, AddUpToTheSimulation) {
  for_cases(11, 300, [](const RandomCase& made) {
    // Messages of two ways at once are not shown in full.
    if (made.job.scheme == scheme_named("two-level")) return;
    const auto [simulation, events] = recorded(made);
    const Recording recording = recording_of(made, events);
    const RunSummary summary = summarize(recording);
    const double n = made.job.world_size;
    const double rounding = 1e-9 * (8 * n + 8);  // half a nanosecond for each end of a slice
    for (std::size_t r = 0; r < summary.ranks.size(); ++r) {
      const RankSummary& seen = summary.ranks[r];
      const SimulatedRank& rank = simulation.ranks[r];
      EXPECT_EQ(static_cast<double>(seen.pairs), rank.pairs);
      EXPECT_EQ(static_cast<double>(seen.bytes_sent), rank.bytes_sent);
      EXPECT_EQ(seen.hops, rank.hops);
      EXPECT_NEAR(seen.compute_s, rank.compute_s, rounding);
      EXPECT_NEAR(seen.wait_s, rank.wait_s, rounding);
      EXPECT_NEAR(seen.exposed_s, rank.exposed_s, rounding);
      std::int64_t last = 0;
      for (const TraceEvent& event : recording.events[r]) last = std::max(last, event.end_ns);
      EXPECT_NEAR(static_cast<double>(last) * 1e-9, rank.end_s, 1e-9);
    }
    EXPECT_NEAR(summary.imbalance, simulation.imbalance(), 1e-12);
    EXPECT_NEAR(summary.balance_ceiling, simulation.balance_ceiling(), 1e-12);
    EXPECT_NEAR(summary.exposed_s, simulation.exposed_s(), rounding);
  });
}

// And a rank does one thing at a time: it computes or it waits.
TEST(Events, OfALaneDoNotOverlapAndEveryMessageHasTwoSides) {
  for_cases(12, 300, [](const RandomCase& made) {
    const Recorded run = recorded(made);
    expect_every_send_has_its_receive(recording_of(made, run.events));
    for (const auto& events : run.events) {
      std::map<Lane, std::int64_t> end;
      std::int64_t busy_until = 0;
      for (const TraceEvent& event : events) {
        EXPECT_LE(end[event.lane], event.begin_ns);
        EXPECT_LE(event.begin_ns, event.end_ns);
        end[event.lane] = event.end_ns;
        if (event.lane != Lane::compute && event.lane != Lane::wait) continue;
        EXPECT_LE(busy_until, event.begin_ns + 1);
        busy_until = event.end_ns;
      }
    }
  });
}

TEST(Events, OfSomeRanksAreTheSameAsOfAll) {
  for_cases(15, 100, [](const RandomCase& made) {
    Recorded all = recorded(made);
    std::vector<bool> some(all.events.size());
    for (std::size_t r = 0; r < some.size(); ++r) some[r] = r % 3 == 1;
    Recorded of_some = recorded(made, some);
    // A flow needs both of its slices.
    for (Recorded* run : {&all, &of_some})
      for (auto& events : run->events)
        for (TraceEvent& event : events) event.flow = 0;
    for (std::size_t r = 0; r < some.size(); ++r) {
      if (some[r]) {
        EXPECT_EQ(of_some.events[r], all.events[r]);
      } else {
        EXPECT_TRUE(of_some.events[r].empty());
      }
    }
    EXPECT_EQ(of_some.simulation.wall_s(), all.simulation.wall_s());
  });
}

}  // namespace
}  // namespace ringscope

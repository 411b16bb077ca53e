// Where ranks' time goes: that every nanosecond is put somewhere, on random traces and real runs;
// that each part gets what was lost to it; and who waits for whom.
#include "viz/data/analysis/findings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/viz_data/hand_made.h"
#include "tests/viz_data/recorded.h"

namespace ringscope::viz {
namespace {

std::int64_t sum_of(const RankIdle& rank) {
  return std::accumulate(rank.by_cause.begin(), rank.by_cause.end(),
                         rank.compute + rank.hops + rank.in_vain + rank.rest);
}

void expect_sums(const Trace& trace, const std::string& what) {
  const IdleReport report = idle_of(trace, explanation_of(trace));
  ASSERT_EQ(report.ranks.size(), trace.ranks.size()) << what;
  EXPECT_EQ(report.wall_ns, trace.end_ns - trace.begin_ns) << what;
  for (int rank = 0; rank < static_cast<int>(report.ranks.size()); ++rank) {
    const RankIdle& idle = report.ranks[rank];
    const auto time_in = [&](Lane lane) {
      std::int64_t sum = 0;
      for (const TraceEvent& slice : trace.slices_of(rank, lane)) sum += slice.duration_ns();
      return sum;
    };
    EXPECT_EQ(idle.compute, time_in(Lane::compute)) << what << ", rank " << rank;
    EXPECT_EQ(idle.wait_ns, time_in(Lane::wait)) << what << ", rank " << rank;
    EXPECT_EQ(sum_of(idle), report.wall_ns) << what << ", rank " << rank;
    EXPECT_GE(std::min({*std::min_element(idle.by_cause.begin(), idle.by_cause.end()), idle.compute,
                        idle.hops, idle.rest}),
              0)
        << what << ", rank " << rank;
  }
}

// Rank 0 of two computes 100 of 1,000 ns, and waits 400 for rank 1.
Trace idling() {
  HandMade made(2);
  made.compute(0, 0, 0, 100).wait(0, 1, 100, 500).compute(1, 0, 0, 1000);
  return made.trace();
}

RankIdle idle_for(double slow_link_s, double jitter_s, double hops_s) {
  Explanation why;
  why.ranks.resize(2);
  RankLosses& losses = why.ranks[0];
  losses.by_cause[static_cast<std::size_t>(Cause::slow_link)] = slow_link_s;
  losses.by_cause[static_cast<std::size_t>(Cause::jitter)] = jitter_s;
  losses.hops = hops_s;
  return idle_of(idling(), why).ranks[0];
}

TEST(Idle, IsSplitByWhatItIsLostTo) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const struct {
    double link_s, jitter_s, hops_s;
    std::int64_t link, jitter, hops, rest;
  } cases[] = {
      {200e-9, 0, 0, 200, 0, 0, 700},
      {200e-9, 300e-9, 100e-9, 200, 300, 100, 300},
      {900e-9, 0, 0, 900, 0, 0, 0},
      {900e-9, 900e-9, 0, 450, 450, 0, 0},  // more than there are: each its share
      {nan, -5, 100e-9, 0, 0, 100, 800},
      {infinity, 0, 0, 900, 0, 0, 0},
  };
  for (const auto& c : cases) {
    const RankIdle idle = idle_for(c.link_s, c.jitter_s, c.hops_s);
    EXPECT_EQ(idle.compute, 100);
    EXPECT_EQ(idle.of(Cause::slow_link), c.link);
    EXPECT_EQ(idle.of(Cause::jitter), c.jitter);
    EXPECT_EQ(idle.hops, c.hops);
    EXPECT_EQ(idle.rest, c.rest);
    EXPECT_EQ(sum_of(idle), 1000);
  }
}

TEST(Idle, NamesWhoWaitsAndForWhom) {
  HandMade made(3);
  made.compute(0, 0, 0, 100).wait(0, 1, 100, 130).compute(1, 0, 0, 200).compute(2, 0, 0, 50);
  made.wait(2, 1, 50, 120).wait(2, 2, 130, 150).wait(1, 1, 200, 230);
  made.recording().events[1].back().waiting_for = 3;  // which is no rank
  made.recording().events[2].back().waiting_for = 0;
  const IdleReport report = idle_of(made.trace(), {});
  EXPECT_EQ(report.longest_waiting(), (std::vector{2}));
  EXPECT_EQ(report.ranks[2].wait_ns, 90);
  EXPECT_EQ(report.ranks[2].waited_for, (std::vector{1}));
  EXPECT_EQ(report.ranks[2].waited_for_ns, 70);
  EXPECT_TRUE(report.ranks[1].waited_for.empty());
}

TEST(Idle, OddTraces) {
  EXPECT_TRUE(idle_of(Trace{}, {}).ranks.empty());
  EXPECT_TRUE(idle_of(Trace{}, {}).longest_waiting().empty());
  expect_sums(HandMade(1).trace(), "no slices");
  expect_sums(HandMade(3).trace(), "no slices");
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  HandMade huge(2);
  huge.compute(0, 0, 0, 10).compute(0, 1, 10, 20).compute(1, 0, 0, 5);
  for (auto& events : huge.recording().events)
    for (TraceEvent& e : events) e.pairs = most;
  huge.wait(1, 1, 5, 20).hop(0, 0, 15, 16);
  expect_sums(huge.trace(), "pairs beyond 64 bits");
}

TEST(Idle, EveryNanosecondOfRandomTraces) {
  for (std::uint32_t seed = 0; seed < 3000; ++seed) {
    expect_sums(random_trace(seed), "seed " + std::to_string(seed));
    if (HasFailure()) return;
  }
}

TEST(Idle, EveryNanosecondOfRealRuns) {
  for_recorded_runs([](const Recording& recording, const std::string& what) {
    expect_sums(trace_of(recording), what);
  });
}

}  // namespace
}  // namespace ringscope::viz

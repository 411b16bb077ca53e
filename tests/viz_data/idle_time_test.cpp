// Where ranks' time goes: that every nanosecond is put somewhere, on random traces and real runs;
// that each part gets what was lost to it; and who waits for whom.
#include "viz/data/analysis/findings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/viz_data/hand_made.h"
#include "tests/viz_data/recorded.h"
#include "tests/viz_data/simulated.h"
#include "viz/data/analysis/critical_path.h"
#include "viz/data/analysis/wait_reason.h"

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

// ---
// Why ranks wait, in rings made by hand in which one thing is late.

// Return the reasons of the first wait of a rank, in one line.
std::string reasons(const HandMade& made, int rank) {
  const Trace trace = made.trace();
  std::string all;
  for (const std::string& reason : reasons_of_wait(trace, {trace.row_of(rank, Lane::wait), 0}))
    all += (all.empty() ? "" : "; ") + reason;
  return all;
}

// Four ranks; rank 1 has attended its own block at 1000 ns and waits for KV 0 until 2000 ns.
HandMade four() { return std::move(HandMade(4).compute(1, 0, 0, 1000).wait(1, 1, 1000, 2000)); }

TEST(WaitReason, AMessageMayBeOnItsWay) {
  EXPECT_EQ(reasons(four().hop(0, 0, 100, 2000), 1), "KV 0 is on its way from rank 0");
}

TEST(WaitReason, TheReceiveBufferMayHaveBeenRead) {
  EXPECT_EQ(reasons(four().hop(0, 0, {100, 2000}, {1000, 2000}), 1),
            "KV 0 comes late from rank 0: its receive buffer was read until now");
}

TEST(WaitReason, TheSenderMayComputeOrSendSomethingElse) {
  EXPECT_EQ(reasons(four().compute(0, 0, 0, 1500).hop(0, 0, 1500, 2000), 1),
            "KV 0 has not come: rank 0 computes on KV 0");
  EXPECT_EQ(reasons(four().hop(0, 3, 200, 1600).hop(0, 0, 1600, 2000), 1),
            "KV 0 has not come: KV 1 is on its way from rank 0");
  EXPECT_EQ(reasons(four().hop(0, 0, 1500, 2000), 1), "KV 0 has not come: rank 0 sends it late");
}

// Rank 2 waits for KV 0, which rank 1 has from rank 0, which computes.
TEST(WaitReason, AReasonHasItsOwnReason) {
  HandMade made(4);
  made.compute(2, 0, 0, 500).wait(2, 2, 500, 2000).compute(0, 0, 0, 1200);
  made.hop(0, 0, 1200, 1500).hop(1, 1, 1500, 2000);
  EXPECT_EQ(reasons(made, 2),
            "KV 0 has not come: rank 1 awaits it from rank 0; rank 0 computes on KV 0");
}

// What it waits for is the rank that it sends to, and its buffer is free when that is over.
TEST(WaitReason, WhatTheRankSendsMayBeOnItsWay) {
  HandMade made = four();
  made.recording().events[1].back().waiting_for = 2;
  made.compute(2, 0, 0, 1500).hop(1, 0, 100, 2000);
  EXPECT_EQ(reasons(made, 1), "KV 1 is on its way to rank 2");
}

// Ranks in step wait for a hop between others, which may be their own sending too.
TEST(WaitReason, AHopBetweenOthersMayHoldUpAll) {
  HandMade made(4);
  for (const int rank : {0, 1, 2, 3}) {
    made.compute(rank, 0, 0, 500).hop(rank, 0, 0, rank == 2 ? 1500 : 200).wait(rank, 1, 500, 1500);
    made.recording().events[rank].back().waiting_for = rank == 2 ? 1 : 2;
  }
  EXPECT_EQ(reasons(made, 0), "KV 2 is on its way from rank 2 to rank 3");
  EXPECT_EQ(reasons(made, 1), "KV 2 is on its way from rank 2 to rank 3");
  EXPECT_EQ(reasons(made, 2), "KV 2 is on its way to rank 3");
  EXPECT_EQ(reasons(made, 3), "KV 2 is on its way from rank 2");
}

// Rank 2 takes what rank 1 sends only long after it could.
TEST(WaitReason, TheReceiverMayComeLate) {
  HandMade made = four();
  made.recording().events[1].back().waiting_for = 2;
  made.compute(2, 0, 0, 300).hop(1, 0, 1800, 2000);
  EXPECT_EQ(reasons(made, 1), "KV 1 has not gone: rank 2 takes it late");
}

// The sums of gradients need what a rank computes of a block that a slow hop brings.
TEST(WaitReason, AComputationMayHaveWaitedItself) {
  HandMade made(4);
  made.compute(3, 0, 0, 100).wait(3, 2, 100, 1000);
  made.hop(0, 0, 0, 800).compute(1, 1, 800, 850).hop(1, 1, 850, 900).hop(2, 2, 900, 1000);
  EXPECT_EQ(
      reasons(made, 3),
      "KV 0 has not come: rank 2 awaits it from rank 1; it is on its way from rank 0 to rank 1");
}

// Nothing comes: what the awaited rank does when the wait begins is all that is known.
TEST(WaitReason, WithoutAMessageWhatTheOtherDoesIsSaid) {
  EXPECT_EQ(reasons(four().compute(0, 0, 0, 1500), 1), "rank 0 computes on KV 0");
  EXPECT_EQ(reasons(four().wait(0, 1, 500, 1500), 1), "rank 0 itself waits for rank 3");
  EXPECT_EQ(reasons(four().wait(0, 1, 500, 1500).compute(3, 0, 0, 1500), 1),
            "rank 0 itself waits for rank 3; rank 3 computes on KV 3");
  // Ranks that wait for each other in a circle are told once each.
  HandMade all = four();
  for (const int rank : {0, 2, 3}) all.wait(rank, 1, 500, 2000);
  EXPECT_EQ(reasons(all, 1),
            "rank 0 itself waits for rank 3; rank 3 itself waits for rank 2; "
            "rank 2 itself waits for rank 1");
  EXPECT_EQ(reasons(four(), 1), "");
  HandMade own = four();
  own.recording().events[1].back().waiting_for = 1;
  EXPECT_EQ(reasons(own.compute(0, 0, 0, 1500), 1), "");
  const Trace trace = own.trace();
  EXPECT_EQ(words_of_awaited(trace, {trace.row_of(1, Lane::wait), 0}), "its own hop");
}

// ---
// What a run's length hangs on: traces made by hand whose path is known, and that the path covers
// the wall time without gap or overlap on random traces and real runs.

// "compute 1 [0, 400)" and so on.
std::vector<std::string> words_of(const CriticalPath& path) {
  std::vector<std::string> words;
  for (const PathSegment& s : path.segments) {
    constexpr const char* kNames[] = {"compute", "link", "overhead"};
    words.push_back(std::string(kNames[s.kind]) + " " + std::to_string(s.rank) + " [" +
                    std::to_string(s.begin_ns) + ", " + std::to_string(s.end_ns) + ")");
  }
  return words;
}

using Words = std::vector<std::string>;

void expect_path(const HandMade& made, const Words& expected) {
  EXPECT_EQ(words_of(critical_path_of(made.trace())), expected);
}

void expect_covers(const Trace& trace, const std::string& what) {
  const CriticalPath path = critical_path_of(trace);
  std::int64_t now = trace.begin_ns, sums[3] = {};
  std::size_t slices = 0;
  for (const PathSegment& s : path.segments) {
    ASSERT_EQ(s.begin_ns, now) << what;
    ASSERT_LT(s.begin_ns, s.end_ns) << what;
    now = s.end_ns;
    sums[s.kind] += s.end_ns - s.begin_ns;
    ASSERT_EQ(s.has_slice, s.kind != PathSegment::overhead) << what;
    if (!s.has_slice) continue;
    ++slices;
    const TraceEvent& slice = trace.slice(s.slice);
    EXPECT_LE(slice.begin_ns, s.begin_ns) << what;
    EXPECT_GE(slice.end_ns, s.end_ns) << what;
    EXPECT_EQ(slice.lane, s.kind == PathSegment::compute ? Lane::compute : Lane::recv) << what;
    EXPECT_EQ(trace.rank_of_row(s.slice.row), s.rank) << what;
    EXPECT_TRUE(path.contains(s.slice)) << what;
  }
  EXPECT_EQ(now, trace.end_ns) << what;
  EXPECT_EQ(sums[PathSegment::compute], path.compute_ns) << what;
  EXPECT_EQ(sums[PathSegment::link], path.link_ns) << what;
  EXPECT_EQ(sums[PathSegment::overhead], path.overhead_ns) << what;
  EXPECT_EQ(slices, path.slices.size()) << what;
}

TEST(CriticalPath, GoesThroughTheRankWithMostToDo) {
  HandMade made(3);
  for (const int rank : {0, 1, 2}) made.hop(rank, 0, 0, 10);
  made.compute(0, 0, 0, 100).compute(1, 0, 0, 400).compute(2, 0, 0, 100);
  made.compute(0, 1, 100, 200).compute(2, 1, 100, 200).compute(1, 1, 400, 450);
  made.hop(1, 1, 400, 420).wait(2, 2, 200, 425).compute(2, 2, 425, 525);
  made.hop(2, 1, 200, 210).wait(0, 2, 200, 210).compute(0, 2, 210, 310);
  const Trace trace = made.trace();
  const CriticalPath path = critical_path_of(trace);
  EXPECT_EQ(words_of(path), (Words{"compute 1 [0, 400)", "link 2 [400, 420)",
                                   "overhead 2 [420, 425)", "compute 2 [425, 525)"}));
  EXPECT_EQ(path.compute_ns, 500);
  EXPECT_EQ(path.link_ns, 20);
  EXPECT_EQ(path.overhead_ns, 5);
  EXPECT_TRUE(path.contains({trace.row_of(1, Lane::compute), 0}));
  EXPECT_FALSE(path.contains({trace.row_of(1, Lane::compute), 1}));
  EXPECT_TRUE(path.contains({trace.row_of(2, Lane::recv), 1}));
  EXPECT_FALSE(path.contains({trace.row_of(2, Lane::wait), 0}));
}

TEST(CriticalPath, GoesAlongLinksThatAreTooSlow) {
  // Each hop needs the one before it, and computing is quick beside them. Each begins when both
  // ends are at it.
  HandMade made(3);
  for (const int rank : {0, 1, 2}) {
    made.compute(rank, 0, 0, 10).hop(rank, 0, {0, 100}, {2, 100}).wait(rank, 1, 10, 100);
    made.compute(rank, 1, 100, 110).hop(rank, 1, {100, 200}, {100, 200}).wait(rank, 2, 110, 200);
    made.compute(rank, 2, 200, rank == 1 ? 215 : 210);
  }
  expect_path(
      made, {"overhead 1 [0, 2)", "link 1 [2, 100)", "link 1 [100, 200)", "compute 1 [200, 215)"});
}

TEST(CriticalPath, FollowsTheReceiverWhenItIsTheOneThatComesLate) {
  // Rank 0's buffer for hop 1 is free when it has attended step 0, at 300; the sender was ready.
  HandMade made(3);
  for (const int rank : {0, 1, 2}) made.hop(rank, 0, 0, 5);
  made.compute(2, 0, 0, 50).compute(2, 1, 50, 100).compute(0, 0, 0, 300);
  made.compute(0, 1, 300, 310).hop(2, 1, 300, 380).wait(0, 2, 310, 380).compute(0, 2, 380, 400);
  expect_path(made, {"compute 0 [0, 300)", "link 0 [300, 380)", "compute 0 [380, 400)"});
}

TEST(CriticalPath, KnowsHowManyBuffersThereWere) {
  // With three, the one that hop 2 needs held the block of step 0; hops 0 and 1 needed nothing of it.
  HandMade made(4);
  made.recording().info.kv_buffers = 3;
  for (const int rank : {0, 1, 2, 3}) made.hop(rank, 0, 0, 5).hop(rank, 1, 5, 10);
  made.compute(3, 0, 0, 50).compute(3, 1, 50, 100).compute(0, 0, 0, 300);
  made.compute(0, 1, 300, 310).compute(0, 2, 310, 320).hop(3, 2, 300, 380).wait(0, 3, 320, 380);
  made.compute(0, 3, 380, 400);
  expect_path(made, {"compute 0 [0, 300)", "link 0 [300, 380)", "compute 0 [380, 400)"});
}

TEST(CriticalPath, ARankThatStartsLateIsOverhead) {
  HandMade made(2);
  made.compute(0, 0, 0, 100).wait(0, 1, 100, 520).compute(0, 1, 520, 720);
  made.compute(1, 0, 500, 600).hop(1, 0, 500, 510).hop(0, 0, 500, 510).compute(1, 1, 600, 700);
  expect_path(made, {"overhead 0 [0, 500)", "link 0 [500, 510)", "overhead 0 [510, 520)",
                     "compute 0 [520, 720)"});
}

TEST(CriticalPath, GapsBetweenComputeSlicesAreOverhead) {
  HandMade made(2);
  made.compute(0, 0, 5, 10).compute(0, 1, 12, 20);
  expect_path(made, {"compute 0 [5, 10)", "overhead 0 [10, 12)", "compute 0 [12, 20)"});
}

// A step may be computed in parts, and a step without pairs is not recorded.
TEST(CriticalPath, PartsOfAStepAreAllOnIt) {
  HandMade made(3);
  made.compute(0, 0, 0, 10).compute(0, 0, 10, 30).compute(0, 2, 35, 50);
  expect_path(made, {"compute 0 [0, 10)", "compute 0 [10, 30)", "overhead 0 [30, 35)",
                     "compute 0 [35, 50)"});
}

TEST(CriticalPath, AWaitWithoutItsTransferIsOverhead) {
  HandMade made(2);
  made.compute(0, 0, 0, 100).wait(0, 1, 100, 160).compute(0, 1, 160, 200);
  made.compute(1, 0, 0, 150);
  expect_path(made, {"compute 0 [0, 100)", "overhead 0 [100, 160)", "compute 0 [160, 200)"});
}

TEST(CriticalPath, TransfersWithoutLengthAreFollowedToo) {
  HandMade made(3);
  for (const int rank : {0, 1, 2}) made.hop(rank, 0, 0, 0);
  made.compute(2, 0, 0, 10).compute(2, 1, 10, 20).compute(1, 0, 0, 300).hop(1, 1, 300, 300);
  made.wait(2, 2, 20, 300).compute(2, 2, 300, 310);
  expect_path(made, {"compute 1 [0, 300)", "compute 2 [300, 310)"});
}

TEST(CriticalPath, GradientsComeHomeLast) {
  HandMade made(2);
  const Pass back = Pass::backward;
  for (const int rank : {0, 1}) {
    made.hop(rank, 0, 0, 5, 100, Payload::kv, back);
    made.compute(rank, 0, 0, rank == 1 ? 200 : 100, 8, back);
  }
  // Rank 1's share of the sum is ready at 200; then rank 0 adds its own and sends it home.
  made.hop(1, 0, 200, 230, 100, Payload::dkv, back).hop(0, 0, 200, 230, 100, Payload::dkv, back);
  made.compute(0, 1, 100, 150, 1, back).wait(0, 1, 150, 230, Payload::dkv, back);
  made.compute(1, 1, 200, 210, 1, back).wait(1, 1, 210, 230, Payload::dkv, back);
  made.hop(0, 1, 240, 290, 100, Payload::dkv, back).hop(1, 1, 240, 280, 100, Payload::dkv, back);
  made.wait_home(1, 230, 300).wait_home(0, 230, 285);
  expect_path(made, {"compute 1 [0, 200)", "link 1 [200, 230)", "overhead 1 [230, 240)",
                     "link 1 [240, 290)", "overhead 1 [290, 300)"});
}

TEST(CriticalPath, WhatIsGatheredAtOnce) {
  HandMade made(3, "contiguous", "full", "allgather");
  for (const int rank : {0, 1, 2}) {
    made.hop(rank, 0, 0, 100).hop(rank, 1, 110, 210).wait(rank, 0, 0, 220);
    for (const int step : {0, 1, 2})
      made.compute(rank, step, 220 + 10 * step, 230 + 10 * step + (rank == 2 ? step / 2 : 0));
  }
  expect_path(made, {"link 2 [0, 100)", "overhead 2 [100, 110)", "link 2 [110, 210)",
                     "overhead 2 [210, 220)", "compute 2 [220, 230)", "compute 2 [230, 240)",
                     "compute 2 [240, 251)"});
}

TEST(CriticalPath, OddTraces) {
  EXPECT_TRUE(critical_path_of(Trace{}).segments.empty());
  EXPECT_TRUE(critical_path_of(HandMade(3).trace()).segments.empty());
  HandMade moment(2);
  moment.compute(0, 0, 5, 5).wait(1, 1, 5, 5).hop(0, 0, 5, 5);
  EXPECT_TRUE(critical_path_of(moment.trace()).segments.empty());
  HandMade sends(2);
  sends.hop(0, 0, {0, 100}, {0, 50});
  expect_path(sends, {"link 1 [0, 50)", "overhead 1 [50, 100)"});
}

TEST(CriticalPath, CoversRandomTraces) {
  for (std::uint32_t seed = 0; seed < 3000; ++seed) {
    expect_covers(random_trace(seed), "seed " + std::to_string(seed));
    if (HasFailure()) return;
  }
}

// Nothing holds up a simulated run but its computations and messages, whatever its loop.
TEST(CriticalPath, OfASimulationLeavesNothingUnexplained) {
  for (const char* scheme : {"ring", "allgather", "bidirectional", "pass-q", "two-level:2"}) {
    Scenario scenario = simulated_scenario(4, PartitionKind::contiguous, true);
    scenario.rates.bytes_per_s = 0.2e9;
    set_scheme(scenario.job, scheme);
    if (scheme == std::string("pass-q")) scenario.job.backward = false;
    const Trace trace = simulated_trace(scenario);
    const CriticalPath path = critical_path_of(trace);
    EXPECT_LE(path.overhead_ns, trace.wall_ns() / 50) << scheme;
    EXPECT_GT(path.link_ns, 0) << scheme;
  }
}

TEST(CriticalPath, CoversRealRuns) {
  for_recorded_runs([](const Recording& recording, const std::string& what) {
    expect_covers(trace_of(recording), what);
  });
}

}  // namespace
}  // namespace ringscope::viz

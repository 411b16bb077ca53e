// What a run's length hangs on: traces made by hand whose path is known, and that the path covers
// the wall time without gap or overlap on random traces and real runs.
#include "viz/data/analysis/critical_path.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/viz_data/hand_made.h"
#include "tests/viz_data/recorded.h"
#include "tests/viz_data/simulated.h"

namespace ringscope::viz {
namespace {

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

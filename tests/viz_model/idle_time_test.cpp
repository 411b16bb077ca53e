// Where ranks' time goes: traces made by hand with one cause each, then chains of them; that every
// nanosecond is put somewhere, on random traces and real runs; and what is said about it.
#include "viz/model/analysis/idle_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/viz_model/hand_made.h"
#include "tests/viz_model/recorded.h"

namespace ringscope::viz {
namespace {

using Parts = decltype(RankIdle::ns);  // compute, imbalance, late, link, overhead

Parts parts_of(const IdleReport& report, int rank) {
  return report.ranks[static_cast<std::size_t>(rank)].ns;
}

void expect_sums(const Trace& trace, const std::string& what) {
  const IdleReport report = idle_of(trace);
  ASSERT_EQ(report.ranks.size(), trace.ranks.size()) << what;
  EXPECT_EQ(report.wall_ns, trace.end_ns - trace.begin_ns) << what;
  for (int rank = 0; rank < static_cast<int>(report.ranks.size()); ++rank) {
    const RankIdle& rank_idle = report.ranks[static_cast<std::size_t>(rank)];
    const auto time_in = [&](RingLane lane) {
      std::int64_t sum = 0;
      for (const Slice& slice : trace.slices_of(rank, lane)) sum += slice.duration_ns();
      return sum;
    };
    EXPECT_EQ(rank_idle[Heading::compute], time_in(RingLane::compute)) << what << ", rank " << rank;
    EXPECT_EQ(rank_idle.wait_ns, time_in(RingLane::wait)) << what << ", rank " << rank;
    EXPECT_EQ(std::accumulate(rank_idle.ns.begin(), rank_idle.ns.end(), std::int64_t{0}),
              report.wall_ns)
        << what << ", rank " << rank;
    EXPECT_GE(*std::min_element(rank_idle.ns.begin(), rank_idle.ns.end()), 0)
        << what << ", rank " << rank;
  }
}

TEST(Idle, WaitingForMorePairsIsImbalance) {
  // Rank 1 has four times the pairs in step 0. Rank 0's hop 1... of step 0 comes at once; that of
  // step 1 only when rank 1 has attended step 0.
  HandMade made(3);
  for (const int rank : {0, 1, 2}) {
    made.hop(rank, 0, 0, 10);
    made.compute(rank, 0, 0, rank == 1 ? 400 : 100, rank == 1 ? 400 : 100);
  }
  made.compute(2, 1, 100, 200, 100).compute(0, 1, 100, 200, 100);
  made.hop(2, 1, 200, 210).compute(0, 2, 210, 310, 100).wait(0, 2, 200, 210);
  made.hop(1, 1, 400, 420).hop(0, 1, 400, 420);
  made.wait(2, 2, 200, 425).compute(2, 2, 425, 525, 100);
  made.compute(1, 1, 400, 500, 100).compute(1, 2, 500, 600, 100);
  const IdleReport report = idle_of(made.trace());
  // Rank 2 waits from 200 for hop 1 of rank 1, which attends step 0 up to 400, 300 pairs more than
  // rank 2 had; then the block is 20 on its way, and 5 pass until rank 2 goes on. At the end it has
  // fewer pairs than rank 1: 600 pairs in 600 ns, the last 300 more than its own.
  EXPECT_EQ(parts_of(report, 2), (Parts{300, 200 + 75, 0, 20, 5}));
  EXPECT_EQ(parts_of(report, 1), (Parts{600, 0, 0, 0, 0}));
  EXPECT_EQ(report.ranks[2].wait_ns, 225);
  EXPECT_EQ(report.ranks[2].waited_for_ns, (std::vector<std::int64_t>{0, 225, 0}));
  EXPECT_EQ(report.longest_waiting_rank(), 2);
  EXPECT_EQ(report.waited_for_most(2), 1);
  EXPECT_EQ(report.waited_for_most(1), -1);
}

// Two ranks whose second hop waits for rank 1 to attend its first block, with the given pairs.
HandMade waiting_for_rank_1(std::int64_t pairs_0, std::int64_t pairs_1) {
  HandMade made(3);
  made.hop(0, 0, 0, 10).hop(1, 0, 0, 10).hop(2, 0, 0, 10);
  made.compute(2, 0, 0, 100, pairs_0).compute(2, 1, 100, 200, 50);
  made.compute(1, 0, 0, 300, pairs_1);
  made.wait(2, 2, 200, 300);
  made.hop(1, 1, 300, 300);
  made.compute(2, 2, 300, 400, 50);
  return made;
}

TEST(Idle, OnlyThePairsThatThereAreMoreOfCount) {
  // 90 of 120 pairs are as many as rank 2 had: 225 of the 300 ns. The rest of the slice is for the
  // other 30.
  const Parts more = parts_of(idle_of(waiting_for_rank_1(90, 120).trace()), 2);
  EXPECT_EQ(more, (Parts{300, 75, 25, 0, 0}));
  const Parts as_many = parts_of(idle_of(waiting_for_rank_1(120, 120).trace()), 2);
  EXPECT_EQ(as_many, (Parts{300, 0, 100, 0, 0}));
  const Parts fewer = parts_of(idle_of(waiting_for_rank_1(130, 120).trace()), 2);
  EXPECT_EQ(fewer, (Parts{300, 0, 100, 0, 0}));
  const Parts all = parts_of(idle_of(waiting_for_rank_1(0, 120).trace()), 2);
  EXPECT_EQ(all, (Parts{300, 100, 0, 0, 0}));
}

TEST(Idle, PairsOfEarlierStepsCountToo) {
  // In step 1 ranks 1 and 2 have 50 pairs each, but rank 1 is late because it had 300 in step 0.
  HandMade made(4);
  for (const int rank : {0, 1, 2, 3}) made.hop(rank, 0, 0, 1).hop(rank, 1, 1, 2);
  made.compute(2, 0, 0, 50, 50).compute(2, 1, 50, 100, 50).compute(2, 2, 100, 150, 50);
  made.compute(1, 0, 0, 300, 300).compute(1, 1, 300, 350, 50);
  made.wait(2, 3, 150, 350).hop(1, 2, 350, 350).compute(2, 3, 350, 450, 50);
  // Hop 2 needs rank 1's step 1: while that is at step 0, then at step 1, it has more to do.
  EXPECT_EQ(parts_of(idle_of(made.trace()), 2), (Parts{250, 200, 0, 0, 0}));
}

TEST(Idle, ABlockOnItsWayIsLink) {
  HandMade made(2);
  made.compute(0, 0, 0, 100).compute(1, 0, 0, 100);
  // Rank 0 begins to receive at 20, rank 1 to send at 60: the link works from 60 on.
  made.hop(1, 0, {60, 180}, {20, 190}).hop(0, 0, 0, 50);
  made.wait(0, 1, 100, 200).compute(0, 1, 200, 300).compute(1, 1, 100, 300);
  const IdleReport report = idle_of(made.trace());
  EXPECT_EQ(parts_of(report, 0), (Parts{200, 0, 0, 90, 10}));
  EXPECT_EQ(parts_of(report, 1), (Parts{300, 0, 0, 0, 0}));
}

TEST(Idle, ARankThatComesLate) {
  // Rank 1 starts at 500, and nothing says why.
  HandMade made(2);
  made.compute(0, 0, 0, 100).wait(0, 1, 100, 520).compute(0, 1, 520, 620);
  made.compute(1, 0, 500, 600).hop(1, 0, 500, 510).hop(0, 0, 500, 510);
  made.compute(1, 1, 600, 700);
  const IdleReport report = idle_of(made.trace());
  // At the end rank 1 is still at it with no more pairs than rank 0: late, too.
  EXPECT_EQ(parts_of(report, 0), (Parts{200, 0, 400 + 80, 10, 10}));
  EXPECT_EQ(parts_of(report, 1), (Parts{200, 0, 0, 0, 500}));
}

TEST(Idle, BothEndsReadyAndNothingMovesIsOverhead) {
  // Hop 0 needs nothing but that both ranks have begun.
  HandMade made(2);
  made.compute(0, 0, 0, 100).compute(1, 0, 0, 400, 9);
  made.wait(0, 1, 100, 330).hop(1, 0, 300, 330).hop(0, 0, 300, 330);
  made.compute(0, 1, 330, 430).compute(1, 1, 400, 430);
  EXPECT_EQ(parts_of(idle_of(made.trace()), 0), (Parts{200, 0, 0, 30, 200}));
}

TEST(Idle, AReceiverReadyBeforeItsSenderIsDelayedByIt) {
  HandMade made(2);
  made.compute(0, 0, 0, 100).compute(1, 0, 0, 100).compute(1, 1, 100, 430);
  made.wait(0, 1, 100, 330).hop(1, 0, {300, 330}, {50, 330}).compute(0, 1, 330, 430);
  EXPECT_EQ(parts_of(idle_of(made.trace()), 0), (Parts{200, 0, 200, 30, 0}));
}

TEST(Idle, TheReasonIsFollowedFromRankToRank) {
  // Rank 3 waits for rank 2, which waits for rank 1, which attends a large block.
  HandMade made(4);
  for (const int rank : {0, 1, 2, 3}) made.hop(rank, 0, 0, 0);
  made.compute(1, 0, 0, 1000, 1000).hop(1, 1, 1000, 1050).hop(0, 1, 1000, 1050);
  made.compute(2, 0, 0, 10, 10).compute(2, 1, 10, 20, 10).hop(2, 1, 20, 30);
  made.wait(2, 2, 20, 1060).compute(2, 2, 1060, 1070, 10);
  made.compute(3, 0, 0, 10, 10).compute(3, 1, 10, 20, 10).wait(3, 2, 20, 30);
  made.compute(3, 2, 30, 40, 10);
  made.hop(2, 2, 1060, 1080).wait(3, 3, 40, 1080).compute(3, 3, 1080, 1090, 10);
  const IdleReport report = idle_of(made.trace());
  EXPECT_EQ(parts_of(report, 2), (Parts{30, 980 + 10, 10, 50, 10}));
  // At the end rank 3 still attends its last block, 10 of its 40 pairs more than rank 2 had in
  // all: the last 10 ns. Rank 2's link is rank 3's link; while rank 2 is slow to go on, rank 3
  // waits for somebody late.
  EXPECT_EQ(parts_of(report, 3), (Parts{40, 960, 0, 10 + 50 + 20, 10}));
}

TEST(Idle, GatheringIsLinkUntilTheLastBlockIsThere) {
  HandMade made(3, "contiguous", "full", "allgather");
  for (const int rank : {0, 1, 2}) {
    made.hop(rank, 0, 0, 100).hop(rank, 1, 110, 210);
    made.wait(rank, 0, 0, 220);
    for (const int step : {0, 1, 2}) made.compute(rank, step, 220 + 10 * step, 230 + 10 * step);
  }
  for (const int rank : {0, 1, 2})
    EXPECT_EQ(parts_of(idle_of(made.trace()), rank), (Parts{30, 0, 0, 200, 20}));
}

TEST(Idle, GradientsThatTravel) {
  HandMade made(2);
  const Pass back = Pass::backward;
  for (const int rank : {0, 1}) {
    made.hop(rank, 0, 0, 5, 100, Payload::kv, back).compute(rank, 0, 0, 100, 8, back);
    made.hop(rank, 0, 100, 130, 100, Payload::dkv, back).compute(rank, 1, 100, 110, 1, back);
    made.wait(rank, 1, 110, 130, Payload::dkv, back);
    made.hop(rank, 1, 140, 190, 100, Payload::dkv, back).wait_home(rank, 130, 200);
  }
  // The wait for the sum on its way, the one for the rank's own, and wake-ups around them.
  for (const int rank : {0, 1})
    EXPECT_EQ(parts_of(idle_of(made.trace()), rank), (Parts{110, 0, 0, 20 + 50, 10 + 10}));
}

TEST(Idle, WhatNothingSaysIsOverhead) {
  HandMade made(1);
  made.compute(0, 0, 5, 10).compute(0, 1, 12, 20);
  EXPECT_EQ(parts_of(idle_of(made.trace()), 0), (Parts{13, 0, 0, 0, 2}));
}

TEST(Idle, AWaitWhoseTransferIsUnknownIsForTheRankItNames) {
  HandMade made(2);
  made.compute(0, 0, 0, 100, 10).compute(1, 0, 0, 150, 30).wait(0, 1, 100, 160);
  made.compute(0, 1, 160, 200, 10);
  EXPECT_EQ(parts_of(idle_of(made.trace()), 0), (Parts{140, 50, 10, 0, 0}));
}

TEST(Idle, OddTraces) {
  EXPECT_TRUE(idle_of(Trace{}).ranks.empty());
  EXPECT_EQ(idle_of(Trace{}).longest_waiting_rank(), -1);
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

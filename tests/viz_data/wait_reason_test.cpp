// Why ranks wait, in rings made by hand in which one thing is late.
#include "viz/data/analysis/wait_reason.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/viz_data/hand_made.h"

namespace ringscope::viz {
namespace {

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
            "KV 0 comes late: its receive buffer was read until now");
}

TEST(WaitReason, TheSenderMayComputeOrSendSomethingElse) {
  EXPECT_EQ(reasons(four().compute(0, 0, 0, 1500).hop(0, 0, 1500, 2000), 1),
            "KV 0 has not come: rank 0 computes on KV 0");
  EXPECT_EQ(reasons(four().hop(0, 3, 200, 1600).hop(0, 0, 1600, 2000), 1),
            "KV 0 has not come: rank 0 still sends KV 1");
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

// Nothing comes: what the awaited rank does when the wait begins is all that is known.
TEST(WaitReason, WithoutAMessageWhatTheOtherDoesIsSaid) {
  EXPECT_EQ(reasons(four().compute(0, 0, 0, 1500), 1), "rank 0 computes on KV 0");
  EXPECT_EQ(reasons(four().wait(0, 1, 500, 1500), 1), "rank 0 itself waits for rank 3");
  EXPECT_EQ(reasons(four(), 1), "");
  HandMade own = four();
  own.recording().events[1].back().waiting_for = 1;
  EXPECT_EQ(reasons(own.compute(0, 0, 0, 1500), 1), "");
  const Trace trace = own.trace();
  EXPECT_EQ(words_of_awaited(trace, {trace.row_of(1, Lane::wait), 0}), "its own hop");
}

}  // namespace
}  // namespace ringscope::viz

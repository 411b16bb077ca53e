#include "core/trace/summary.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/trace/sample_recording.h"

namespace ringscope {
namespace {

TEST(Summary, OfARing) {
  for (const int n : {1, 2, 3, 8})
    for (const bool backward : {false, true}) {
      SCOPED_TRACE(n);
      const RunSummary summary = summarize(sample_recording(n, backward));
      ASSERT_EQ(summary.ranks.size(), static_cast<std::size_t>(n));
      const int passes = backward ? 2 : 1;
      double slowest = 0, total = 0;
      for (int r = 0; r < n; ++r) {
        const RankSummary& rank = summary.ranks[static_cast<std::size_t>(r)];
        // Of the forward pass alone.
        ASSERT_EQ(rank.pairs_by_step.size(), static_cast<std::size_t>(n));
        for (int t = 0; t < n; ++t)
          EXPECT_EQ(rank.pairs_by_step[static_cast<std::size_t>(t)], 100 * (r + 1) + t);
        EXPECT_EQ(rank.pairs, 100 * (r + 1) * n + n * (n - 1) / 2);
        total += static_cast<double>(rank.pairs);
        slowest = std::max(slowest, static_cast<double>(rank.pairs));
        EXPECT_DOUBLE_EQ(rank.compute_s, 1000e-9 * n * passes);
        EXPECT_DOUBLE_EQ(rank.compute_cpu_s, (900 + r) * 1e-9 * n * passes);
        EXPECT_DOUBLE_EQ(rank.wait_s, (490 + 7 * r) * 1e-9 * n * passes);
        // N-1 hops forward; N backward, in which a block and a gradient of one step move together.
        const int blocks = (n - 1) * passes, gradients = backward && n > 1 ? n : 0;
        EXPECT_EQ(rank.hops, n - 1 + gradients);
        EXPECT_EQ(rank.bytes_sent, 4096 * blocks + 8192 * gradients);
        // A block's transfer begins r ns after the step (send) or 2r (recv), compute 10 ns after
        // it. A gradient's runs from 1000 + r to 1600; compute ends at 1010.
        const int block_exposed = std::max(0, 10 - r);
        const int gradient_exposed = 1600 - 1010;
        EXPECT_DOUBLE_EQ(rank.exposed_s,
                         1e-9 * (block_exposed * blocks + gradient_exposed * gradients));
        EXPECT_LE(rank.exposed_s, summary.exposed_s);
      }
      EXPECT_DOUBLE_EQ(summary.imbalance, slowest * n / total);
      // The last rank has the most in every step.
      EXPECT_DOUBLE_EQ(summary.balance_ceiling, total / n / slowest);
      EXPECT_DOUBLE_EQ(summary.measured_imbalance, (900.0 + n - 1) / (900 + (n - 1) / 2.0));
      EXPECT_DOUBLE_EQ(summary.measured_balance_ceiling, 1 / summary.measured_imbalance);
    }
}

// All-gather and reduce-scatter are two rounds of hops, though their steps have the same numbers.
TEST(Summary, AllgatherHopsTwiceInTheBackward) {
  Recording recording = sample_recording(4, true);
  recording.info.scheme = "allgather";
  EXPECT_EQ(summarize(recording).ranks[0].hops, 3 + 3 + 4);
}

TEST(Summary, NothingRecorded) {
  Recording recording;
  recording.info.world_size = 3;
  recording.events.resize(3);
  const RunSummary summary = summarize(recording);
  EXPECT_EQ(summary.ranks.size(), 3u);
  EXPECT_EQ(summary.imbalance, 1);
  EXPECT_EQ(summary.balance_ceiling, 1);
  EXPECT_EQ(summary.exposed_s, 0);
  EXPECT_EQ(summary.ranks[0].hops, 0);
}

// The slowest rank changes from step to step, so the ceiling lies below 1 though the totals are
// even.
TEST(Summary, CeilingIsSummedOverSteps) {
  const std::vector<std::vector<double>> work = {{4, 0}, {0, 4}};
  EXPECT_EQ(balance_ceiling(work), 0.5);
  EXPECT_EQ(imbalance({4, 4}), 1);
  EXPECT_EQ(imbalance({6, 2}), 1.5);
  EXPECT_EQ(imbalance({0, 0}), 1);
  EXPECT_EQ(imbalance({}), 1);
  EXPECT_EQ(balance_ceiling({}), 1);
  EXPECT_EQ(balance_ceiling({{0}, {0}}), 1);
  EXPECT_EQ(balance_ceiling({{2, 2}, {2}}), 0.75);
}

// How computing and communication overlap, against a count of single nanoseconds, for overlapping, nested,
// touching and empty slices.
TEST(Summary, OverlapByBruteForce) {
  std::uint32_t state = 7;
  const auto random = [&](std::uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<std::int64_t>((state >> 16) % below);
  };
  for (int round = 0; round < 500; ++round) {
    Recording recording;
    recording.events.resize(1);
    std::vector<bool> moving(64), computing(64);
    const std::int64_t count = random(12);
    for (std::int64_t i = 0; i < count; ++i) {
      TraceEvent e{.lane = kAllLanes[random(4)]};
      e.begin_ns = random(50);
      e.end_ns = e.begin_ns + random(14);
      for (std::int64_t t = e.begin_ns; t < e.end_ns; ++t) {
        if (e.lane == Lane::compute) computing[static_cast<std::size_t>(t)] = true;
        if (e.lane == Lane::send || e.lane == Lane::recv)
          moving[static_cast<std::size_t>(t)] = true;
      }
      recording.events[0].push_back(e);
    }
    RankOverlap expected{.span = 64};
    std::int64_t overlapped = 0, idle = 0;
    for (std::size_t t = 0; t < 64; ++t) {
      expected.compute += computing[t];
      expected.communication += moving[t];
      expected.exposed += moving[t] && !computing[t];
      overlapped += moving[t] && computing[t];
      idle += !moving[t] && !computing[t];
    }
    const RankOverlap found = overlap_of(recording.events[0], 64);
    EXPECT_EQ(found.compute, expected.compute) << round;
    EXPECT_EQ(found.communication, expected.communication) << round;
    EXPECT_EQ(found.exposed, expected.exposed) << round;
    EXPECT_EQ(found.overlapped(), overlapped) << round;
    EXPECT_EQ(found.idle(), idle) << round;
    EXPECT_DOUBLE_EQ(summarize(recording).exposed_s, expected.exposed * 1e-9) << round;
  }
}

TEST(Summary, SumsThatDoNotFit) {
  Recording recording = sample_recording(2, false);
  recording.events[1][0].pairs = INT64_MAX;
  EXPECT_THROW(summarize(recording), InputError);
}

}  // namespace
}  // namespace ringscope

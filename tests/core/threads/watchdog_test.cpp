// Whom the judge of signs of life finds guilty, and when.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <thread>

#include "core/ring/thread_communicator.h"
#include "core/threads/cpu_engine.h"
#include "core/threads/rank.h"
#include "core/threads/run.h"
#include "core/threads/watchdog.h"
#include "tests/core/base/thrown.h"
#include "tests/core/ring/ring_harness.h"

namespace ringscope {

namespace watch_test {

constexpr double kTimeout = 10;

RankStatus at(std::uint64_t progress, int step, int waiting_for, Pass pass = Pass::forward) {
  return {progress, pass, step, waiting_for};
}

// All ranks are heard of at `now`.
void hear(StallJudge& judge, const std::vector<RankStatus>& ranks, double now) {
  for (std::size_t r = 0; r < ranks.size(); ++r) judge.heard(static_cast<int>(r), ranks[r], now);
}

// The verdict on ranks that stand still like this.
RunError verdict_on(const std::vector<RankStatus>& ranks) {
  StallJudge judge(static_cast<int>(ranks.size()), kTimeout, 0);
  hear(judge, ranks, 1);
  for (double now = 2; now < 11; ++now) {
    hear(judge, ranks, now);
    EXPECT_FALSE(judge.verdict(now).has_value()) << now;
  }
  hear(judge, ranks, 11);
  const std::optional<RunError> verdict = judge.verdict(11);
  EXPECT_TRUE(verdict.has_value());
  return verdict.value_or(RunError("none"));
}

TEST(StallJudge, SilenceIsDeath) {
  StallJudge judge(3, kTimeout, 0);
  judge.heard(0, at(1, 0, -1), 9);
  judge.heard(1, at(5, 2, 0), 2);
  judge.heard(2, at(1, 0, -1), 9);
  EXPECT_FALSE(judge.verdict(11.5).has_value());
  judge.heard(0, at(2, 0, -1), 11.5);
  judge.heard(2, at(2, 0, -1), 11.5);
  const std::optional<RunError> verdict = judge.verdict(12);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank(), 1);
  EXPECT_EQ(verdict->step(), 2);
  expect_contains(verdict->what(), "10 s");
}

TEST(StallJudge, TheOneSilentForLongest) {
  StallJudge judge(3, kTimeout, 0);
  judge.heard(0, at(1, 1, 2), 3);
  judge.heard(1, at(1, 1, 0), 12);
  judge.heard(2, at(1, 1, 1), 1);
  const std::optional<RunError> verdict = judge.verdict(13.5);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank(), 2);
}

TEST(StallJudge, NeverHeardOf) {
  StallJudge judge(2, kTimeout, 5);
  judge.heard(0, at(1, 0, -1), 14);
  EXPECT_FALSE(judge.verdict(14.9).has_value());
  const std::optional<RunError> verdict = judge.verdict(15);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank(), 1);
  EXPECT_EQ(verdict->step(), -1);
}

// One that computes keeps all others, who wait for it, alive.
TEST(StallJudge, ProgressOfAnybodyIsEnough) {
  StallJudge judge(3, kTimeout, 0);
  for (int i = 0; i < 100; ++i) {
    const double now = 9 * i;
    judge.heard(0, at(7, 2, 2), now);
    judge.heard(1, at(7, 3, 0), now);
    judge.heard(2, at(static_cast<std::uint64_t>(i), 1, -1), now);
    EXPECT_FALSE(judge.verdict(now + 0.5).has_value()) << now;
  }
}

TEST(StallJudge, TheOneThatAllWaitFor) {
  // 2 is stuck; the others wait for it, directly or not.
  const RunError error = verdict_on({at(1, 2, 3), at(1, 2, 2), at(1, 2, -1), at(1, 2, 2)});
  EXPECT_EQ(error.rank(), 2);
  EXPECT_EQ(error.step(), 2);
  // Two wait for nobody: the one that is waited for, though the other is further behind.
  EXPECT_EQ(verdict_on({at(1, 0, -1), at(1, 2, 2), at(1, 2, -1)}).rank(), 2);
  // Both are: the one that is further behind, and the lower of equals.
  EXPECT_EQ(verdict_on({at(1, 3, -1), at(1, 3, 0), at(1, 2, -1), at(1, 3, 2)}).rank(), 2);
  EXPECT_EQ(
      verdict_on({at(1, 0, -1, Pass::backward), at(1, 3, 0), at(1, 2, -1), at(1, 3, 2)}).rank(), 2);
  EXPECT_EQ(verdict_on({at(1, 2, 3), at(1, 2, -1), at(1, 2, 1), at(1, 2, -1)}).rank(), 1);
  // Its own part is missing: it waits for nobody else.
  EXPECT_EQ(verdict_on({at(1, 1, 2), at(1, 1, 1), at(1, 1, 1)}).rank(), 1);
}

TEST(StallJudge, Alone) {
  const RunError error = verdict_on({at(3, 0, -1, Pass::backward)});
  EXPECT_EQ(error.rank(), 0);
  expect_contains(error.what(), "backward");
}

TEST(StallJudge, Circles) {
  const RunError error = verdict_on({at(1, 1, 1), at(1, 1, 2), at(1, 1, 0)});
  EXPECT_EQ(error.rank(), 0);
  EXPECT_EQ(error.step(), 1);
  expect_contains(error.what(), "0 for 1 for 2 for 0");
  // Whoever is furthest behind.
  EXPECT_EQ(verdict_on({at(1, 4, 2), at(1, 4, 0), at(1, 2, 1)}).rank(), 2);
  // A circle that the lowest rank waits for without being part of it, and one of many.
  EXPECT_EQ(verdict_on({at(1, 1, 1), at(1, 1, 2), at(1, 1, 1)}).rank(), 0);
  std::vector<RankStatus> many;
  for (int r = 0; r < 1000; ++r) many.push_back(at(1, 0, (r + 1) % 1000));
  EXPECT_LE(std::string(verdict_on(many).what()).size(), 200u);
  // A rank that there is not is no reason to fall over.
  EXPECT_EQ(verdict_on({at(1, 1, 7)}).rank(), 0);
}

TEST(StallJudge, WhoHasEndedIsNotMissed) {
  StallJudge judge(2, kTimeout, 0);
  judge.heard(1, at(1, 1, 0), 2);
  judge.ended(0, 4);
  judge.heard(1, at(1, 1, 0), 13);
  EXPECT_FALSE(judge.verdict(13.9).has_value());
  const std::optional<RunError> verdict = judge.verdict(14);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank(), 1);
  judge.ended(1, 15);
  EXPECT_FALSE(judge.verdict(1000).has_value());
}

TEST(RankPulse, WorkOutsideOfTheRunAdvancesItAsLongAsItGoesOn) {
  RankPulse pulse;
  pulse.advance();
  EXPECT_EQ(pulse.status().progress, 1u);
  EXPECT_EQ(pulse.status().progress, 1u);
  std::uint64_t last = 1;
  {
    const ShownOutsideWork shown(pulse);
    for (int look = 0; look < 3; ++look) {
      const std::uint64_t now = pulse.status().progress;
      EXPECT_GT(now, last);
      last = now;
    }
  }
  EXPECT_EQ(pulse.status().progress, last);
}

}  // namespace watch_test

// ---
// A run on threads is watched: work keeps it alive however long it takes, a standstill ends it, and
// who is still at work when it fails leaves that.

namespace watchdog_test {

using std::chrono::milliseconds;

// What a rank does before it attends a block.
using Before = std::function<void(int rank, const StepInfo& step, RankPulse& pulse)>;

class DisturbedBackend : public ForwardingBackend {
 public:
  DisturbedBackend(BlockBackend& inner, Rank& rank, const Before& before)
      : ForwardingBackend(inner), rank_(rank), before_(before) {}

 private:
  Completion around(BlockOperation which, const StepInfo* step, const Completion& after,
                    const Start& start) override {
    if (which == BlockOperation::attend) {
      rank_.pulse().at(step->pass, step->step);
      before_(rank_.rank(), *step, rank_.pulse());
    }
    return start(after);
  }

  Rank& rank_;
  const Before& before_;
};

const RingReference& problem() {
  static const RingReference reference({1, 2, 1, 21, 4}, DType::f32, "causal", 0.5f, 47);
  return reference;
}

Problem config_with(double timeout_s) {
  Problem config = problem().config(PartitionKind::zigzag, 3);
  config.timeout_s = timeout_s;
  return config;
}

// Throws as run_ranks does.
RingRun run_disturbed(const Problem& config, const Before& before) {
  return run_wrapped(
      config, problem().inputs,
      [](Rank&, Communicator& inner) { return ForwardingCommunicator(inner); },
      [&](Rank& rank, BlockBackend& inner) { return DisturbedBackend(inner, rank, before); });
}
RunFailure failure_of(const Problem& config, const Before& before) {
  try {
    run_disturbed(config, before);
  } catch (const RunFailure& failure) {
    return failure;
  }
  ADD_FAILURE() << "the run ended well";
  return RunFailure(RunError("none"), {});
}

// The timeouts of these tests are long enough for a rank that gets no turn on a busy machine.
TEST(Watchdog, LongWorkIsNoStandstill) {
  const Problem config = config_with(0.6);
  const RingRun run = run_disturbed(config, [](int rank, const StepInfo& step, RankPulse& pulse) {
    if (rank != 1 || step.step != 1 || step.pass != Pass::forward) return;
    for (int i = 0; i < 250; ++i) {
      std::this_thread::sleep_for(milliseconds(5));
      pulse.tick();
    }
  });
  problem().check(config, run);
}

TEST(Watchdog, AStandstillEndsTheRunAndIsNamed) {
  problem();
  std::vector<std::future<RunFailure>> failures;
  for (int stuck = 0; stuck < 3; ++stuck)
    for (int at = 0; at < 3; ++at)
      failures.push_back(std::async(std::launch::async, [stuck, at] {
        return failure_of(config_with(1), [&](int rank, const StepInfo& step, RankPulse& pulse) {
          while (rank == stuck && step.step == at && !pulse.is_stopped())
            std::this_thread::sleep_for(milliseconds(1));
          if (pulse.is_stopped()) pulse.tick();
        });
      }));
  for (int i = 0; i < 9; ++i) {
    SCOPED_TRACE(testing::Message() << "rank " << i / 3 << ", step " << i % 3);
    const RunFailure failure = failures[static_cast<std::size_t>(i)].get();
    EXPECT_EQ(failure.rank(), i / 3);
    EXPECT_EQ(failure.step(), i % 3);
    expect_contains(failure.what(), "no progress for 1 s");
    ASSERT_TRUE(failure.recording().info.failure.has_value());
    EXPECT_EQ(failure.recording().info.failure->rank, i / 3);
  }
}

// The failure of one rank reaches those that wait for nothing.
TEST(Watchdog, WhoIsAtWorkWhenTheRunFailsLeavesIt) {
  const RunFailure failure =
      failure_of(config_with(1), [](int rank, const StepInfo&, RankPulse& pulse) {
        if (rank == 1) throw RunError("the device is gone");
        for (int i = 0; i < 8'000; ++i) {
          std::this_thread::sleep_for(milliseconds(1));
          pulse.tick();
        }
      });
  EXPECT_EQ(failure.rank(), 1);
  EXPECT_EQ(failure.step(), 0);
  EXPECT_STREQ(failure.what(), "the device is gone");
}

// Not by the test's own backend: the tile loops of the CPU themselves tick, and can be stopped.
TEST(Watchdog, TilesTickAndStop) {
  const Index rows = 200, d = 8;
  const Problem config{.shape = {1, 2, 1, rows, d}, .softmax_scale = 1.0, .backward = true};
  const RingProblem problem = config.ring_problem();
  RankMemory mine(config, 0);
  std::fill(mine.q.begin(), mine.q.end(), std::byte{0});
  std::fill(mine.dout.begin(), mine.dout.end(), std::byte{0});
  std::fill_n(mine.own_kv(), problem.kv_bytes(0), std::byte{0});
  RankPulse pulse;
  CpuBackend cpu(problem.params, true, nullptr, &pulse);
  ThreadRing ring(1);
  ThreadCommunicator comm(ring, 0);
  ring_forward(comm, cpu, problem, mine);
  const auto tiles = static_cast<std::uint64_t>(cpu.last_stats().tiles_full);
  EXPECT_EQ(tiles, 2u * (rows + kTileRows - 1) / kTileRows * ((rows + kTileKeys - 1) / kTileKeys));
  const std::uint64_t forward = pulse.progress();
  EXPECT_GE(forward, tiles);
  ring_backward(comm, cpu, problem, mine);
  EXPECT_GE(pulse.progress() - forward, tiles);
  pulse.stop();
  const std::uint64_t before = pulse.progress();
  EXPECT_THROW(ring_forward(comm, cpu, problem, mine), RunError);
  EXPECT_THROW(ring_backward(comm, cpu, problem, mine), RunError);
  EXPECT_LE(pulse.progress() - before, 2u);
}

}  // namespace watchdog_test

}  // namespace ringscope

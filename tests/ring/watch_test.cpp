// Whom the judge of signs of life finds guilty, and when.
#include "core/ring/watch.h"

#include <gtest/gtest.h>

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
  EXPECT_NE(std::string(verdict->what()).find("10 s"), std::string::npos) << verdict->what();
}

// It, and not those who make no progress since it is silent.
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
  EXPECT_NE(std::string(error.what()).find("backward"), std::string::npos) << error.what();
}

TEST(StallJudge, Circles) {
  const RunError error = verdict_on({at(1, 1, 1), at(1, 1, 2), at(1, 1, 0)});
  EXPECT_EQ(error.rank(), 0);
  EXPECT_EQ(error.step(), 1);
  EXPECT_NE(std::string(error.what()).find("0 for 1 for 2 for 0"), std::string::npos)
      << error.what();
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
}  // namespace ringscope

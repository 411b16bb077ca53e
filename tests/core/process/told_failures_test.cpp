// Failures that a rank tells: the same one reaches all, with rank and step.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/core/process/job.h"

namespace ringscope {
namespace told_failures_test {

constexpr int kRanks = 3;

TEST(ToldFailure, OfAnyRankReachesAllWithRankAndStep) {
  for (int culprit = 0; culprit < kRanks; ++culprit) {
    Job job(kRanks, [&](Place& place) {
      const auto line = place.enter();
      RankPulse pulse;
      pulse.at(Pass::forward, 5 + place.rank);
      std::atomic<int> calls = 0;
      line->watch(pulse, [&](const RunError&) { ++calls; });
      if (place.rank == culprit) line->fail(RunError("the device is gone"));
      const std::string seen = failure_seen_by(*line);
      while (calls == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      line->unwatch();
      line->leave_after_failure(1);
      return seen + (calls == 1 ? "" : ", and was told more than once");
    });
    for (int rank = 0; rank < kRanks; ++rank)
      EXPECT_EQ(job.outcome(rank), fmt::format("rank {}, step {}: the device is gone{}", culprit,
                                               5 + culprit, rank == 0 ? " (speaks)" : ""));
  }
}

TEST(ToldFailure, OfAnotherRankGetsItsStepFilledIn) {
  Job job(kRanks, [&](Place& place) {
    const auto line = place.enter();
    RankPulse pulse;
    pulse.at(Pass::forward, 5 + place.rank);
    line->watch(pulse, [](const RunError&) {});
    line->gather("");
    line->broadcast("");
    if (place.rank == 1) line->fail(RunError("sent too little", 2));
    const std::string seen = failure_seen_by(*line);
    line->unwatch();
    line->leave_after_failure(1);
    return seen;
  });
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(job.outcome(rank),
              fmt::format("rank 2, step 7: sent too little{}", rank == 0 ? " (speaks)" : ""));
}

TEST(ToldFailure, TwoAtOnceAreOneForAll) {
  Job job(kRanks, [&](Place& place) {
    const auto line = place.enter();
    line->gather("");
    line->broadcast("");
    line->fail(RunError("mine"));
    const std::optional<RunError> failure = line->wait_for_failure(kPatience);
    line->leave_after_failure(1);
    return failure ? text_of(*failure) : "no failure";
  });
  const std::string first = job.outcome(0).value_or("nothing");
  EXPECT_TRUE(first.ends_with(", step -1: mine")) << first;
  for (int rank = 1; rank < kRanks; ++rank) EXPECT_EQ(job.outcome(rank), first);
}

TEST(ToldFailure, TheFirstOfARankCounts) {
  for (const int teller : {0, 1}) {
    Job job(2, [&](Place& place) {
      const auto line = place.enter();
      if (place.rank == teller)
        for (const char* which : {"first", "second"}) line->fail(RunError(which, 1, 1));
      const std::string seen = failure_seen_by(*line);
      line->leave_after_failure(1);
      return seen;
    });
    EXPECT_EQ(job.outcome(0), "rank 1, step 1: first (speaks)");
    EXPECT_EQ(job.outcome(1), "rank 1, step 1: first");
  }
}

// Who exchanges blocks with a rank that dies may say so before its death is known.
TEST(ToldFailure, DeathCountsMoreThanItsConsequences) {
  for (const int teller : {0, 1}) {
    Job job(kRanks, [&](Place& place) {
      const auto line = place.enter();
      try {
        line->gather("");
        line->broadcast("");
      } catch (const RunError&) {  // the death may be known so early
      }
      if (place.rank == teller) line->fail(RunError("a peer is gone"));
      place.mark();
      return failure_seen_by(*line);
    });
    job.wait_for_mark(teller);
    job.send_signal(2, SIGKILL);
    EXPECT_EQ(job.outcome(0), "rank 2, step -1: its process ended (speaks)");
    EXPECT_EQ(job.outcome(1), "rank 2, step -1: its process ended");
  }
}

TEST(ToldFailure, CountsMoreThanTheTellersEnd) {
  Job job(kRanks, [&](Place& place) -> std::string {
    const auto line = place.enter();
    if (place.rank == 1) {
      line->fail(RunError("the device is gone", 1, 4));
      ::kill(::getpid(), SIGKILL);
    }
    return failure_seen_by(*line);
  });
  EXPECT_EQ(job.outcome(0), "rank 1, step 4: the device is gone (speaks)");
  EXPECT_EQ(job.outcome(2), "rank 1, step 4: the device is gone");
}

TEST(ToldFailure, BeforeTheWatchIsToldAtItsBegin) {
  Job job(2, [](Place& place) -> std::string {
    const auto line = place.enter();
    if (place.rank == 1) line->fail(RunError("early"));
    failure_seen_by(*line);
    RankPulse pulse;
    std::atomic<bool> is_told = false;
    line->watch(pulse,
                [&](const RunError& error) { is_told = error.what() == std::string("early"); });
    while (!is_told) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    line->unwatch();
    EXPECT_THROW(line->gather(""), RunError);
    EXPECT_THROW(line->broadcast(""), RunError);
    EXPECT_THROW(line->leave(), RunError);
    return testing::Test::HasFailure() ? "did not throw" : "told";
  });
  EXPECT_EQ(job.outcome(0), "told");
  EXPECT_EQ(job.outcome(1), "told");
}

// unwatch() returns when no call is under way: what the callback uses may go then.
TEST(ToldFailure, NothingIsCalledAfterUnwatch) {
  Job job(2, [](Place& place) -> std::string {
    const auto line = place.enter();
    RankPulse pulse;
    std::atomic<bool> is_calling = false, has_called = false;
    line->watch(pulse, [&](const RunError&) {
      is_calling = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      has_called = true;
    });
    if (place.rank == 0) line->fail(RunError("now"));
    while (!is_calling) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    line->unwatch();
    return has_called ? "after the call" : "during the call";
  });
  EXPECT_EQ(job.outcome(0), "after the call");
  EXPECT_EQ(job.outcome(1), "after the call");
}

TEST(ToldFailure, OfARunOfOneIsItsOwn) {
  const auto line = Lifeline::host(LifelineDoor(), 1, kPatience);
  EXPECT_EQ(line->gather("x"), std::vector<std::string>{"x"});
  EXPECT_EQ(line->broadcast("y"), "y");
  line->fail(RunError("alone", -1, 2));
  EXPECT_EQ(failure_seen_by(*line), "rank 0, step 2: alone (speaks)");
  EXPECT_EQ(line->last_words("w", 1), std::vector<std::optional<std::string>>{"w"});
}

TEST(LastWords, ComeFromAllThatLive) {
  std::string long_words(5 << 20, 'x');
  Job job(5, [&](Place& place) -> std::string {
    const auto line = place.enter();
    line->gather("");
    line->broadcast("");
    place.mark();
    const std::string seen = failure_seen_by(*line);
    if (place.rank == 3) std::this_thread::sleep_for(std::chrono::seconds(30));  // stuck
    const auto words =
        line->last_words(place.rank == 4 ? long_words : std::to_string(place.rank), 1);
    std::string all;
    for (const auto& each : words) all += !each ? "-" : *each == long_words ? "long" : *each;
    line->leave_after_failure(1);
    return seen + " " + all;
  });
  job.wait_for_marks();
  job.send_signal(2, SIGKILL);
  EXPECT_EQ(job.outcome(0), "rank 2, step -1: its process ended (speaks) 01--long");
  EXPECT_EQ(job.outcome(1), "rank 2, step -1: its process ended ");
  EXPECT_EQ(job.outcome(4), "rank 2, step -1: its process ended ");
}

// Neither the dead nor the silent are waited for.
TEST(LastWords, WaitForNobodyInVain) {
  Job job(3, [&](Place& place) -> std::string {
    const auto line = place.enter(1);
    place.mark();
    failure_seen_by(*line);
    const auto begin = std::chrono::steady_clock::now();
    line->last_words("", kPatience);
    const bool is_quick = std::chrono::steady_clock::now() - begin < std::chrono::seconds(5);
    line->leave_after_failure(1);
    return is_quick ? "quick" : "slow";
  });
  job.wait_for_marks();
  job.send_signal(1, SIGSTOP);
  EXPECT_EQ(job.outcome(0), "quick");
  EXPECT_EQ(job.outcome(2), "quick");
}

// A launcher kills all when one ends with an error: the others go after the speaker.
TEST(LastWords, OthersEndAfterTheSpeaker) {
  using Clock = std::chrono::steady_clock;
  Job job(3, [](Place& place) -> std::string {
    const auto line = place.enter();
    line->fail(RunError("over"));
    failure_seen_by(*line);
    const auto seen = Clock::now();
    if (place.rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    line->leave_after_failure(kPatience);
    const auto took = Clock::now() - seen;
    return took > std::chrono::milliseconds(350) && took < std::chrono::seconds(10) ? "after it"
                                                                                    : "too early";
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(job.outcome(rank), "after it");
}

// Once rank 0 has said what there was to say, its end gives nobody else a reason to.
TEST(LastWords, AreNotSpokenTwice) {
  Job job(2, [](Place& place) -> std::string {
    const auto line = place.enter();
    if (place.rank == 1) return failure_seen_by(*line);
    line->leave_after_failure(1);
    return "";
  });
  EXPECT_EQ(job.outcome(0), "");
  EXPECT_EQ(job.outcome(1), "rank 0, step -1: its process ended");
}

}  // namespace told_failures_test
}  // namespace ringscope

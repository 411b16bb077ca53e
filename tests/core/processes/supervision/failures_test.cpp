// A rank that is killed or stopped, any rank in any phase: the others end, all with the same failure,
// which names it and where it was, and one of them is to tell it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/core/processes/supervision/job.h"

namespace ringscope {
namespace failures_test {

constexpr int kRanks = 3;

enum class Phase { reading, leaving, watched };

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// All ranks come to `phase` and stay there; those that are not `victim` get on with their work.
std::string stay_in(Phase phase, int victim, Place& place, double timeout_s) {
  const std::unique_ptr<Lifeline> line = place.enter(timeout_s);
  RankPulse pulse;
  if (phase == Phase::watched) {
    pulse.at(Pass::backward, 3);
    line->watch(pulse);
  } else {
    line->doing("reading");
  }
  const ShownOutsideWork works(line->pulse());
  sleep_for(0.5);  // so that it is known
  place.mark();
  if (phase == Phase::leaving && place.rank != victim) line->leave();
  place.wait_for_failure();
}

// A phase and a victim, and the ranks that go there.
struct Loss {
  Phase phase;
  int victim;
  std::unique_ptr<Job> job;

  std::string failure(const std::string& what) const {
    const bool is_watched = phase == Phase::watched;
    return fmt::format("rank {}, step {}: {} ({})", victim, is_watched ? 3 : -1, what,
                       is_watched ? "backward" : "reading");
  }
};

// All of them at once, since they mostly wait.
std::vector<Loss> all_losses(int signal, double timeout_s) {
  std::vector<Loss> losses;
  for (const Phase phase : {Phase::reading, Phase::leaving, Phase::watched})
    for (int victim = 0; victim < kRanks; ++victim)
      losses.push_back({phase, victim, std::make_unique<Job>(kRanks, [=](Place& place) {
                          return stay_in(phase, victim, place, timeout_s);
                        })});
  for (Loss& loss : losses) {
    loss.job->wait_for_marks();
    loss.job->send_signal(loss.victim, signal);
  }
  return losses;
}

TEST(LostRank, KilledIsNamedInEveryPhase) {
  for (const Loss& loss : all_losses(SIGKILL, kPatience))
    loss.job->expect_failure(loss.failure("its process ended"), loss.victim,
                             loss.victim == 0 ? 1 : 0);
}

// One that goes on later learns of its failure as well, and that it is not to tell it: others have
// done so.
TEST(LostRank, StoppedIsNamedAfterTheTimeoutInEveryPhase) {
  for (const Loss& loss : all_losses(SIGSTOP, 3)) {
    const std::string failure = loss.failure("no sign of life for 3 s");
    loss.job->expect_failure(failure, loss.victim, loss.victim == 0 ? 1 : 0);
    loss.job->send_signal(loss.victim, SIGCONT);
    EXPECT_EQ(loss.job->outcome(loss.victim), failure);
  }
}

// Rank 2 comes late.
TEST(LostRank, KilledBeforeAllHaveJoinedIsNamed) {
  for (const int victim : {0, 1}) {
    int joined[2];
    ASSERT_EQ(::pipe(joined), 0);
    Job job(kRanks, [&](Place& place) -> std::string {
      if (place.rank == 2) sleep_for(0.5);
      if (place.rank == victim) {
        std::thread([&] {
          char byte = 0;
          if (::read(joined[0], &byte, 1) == 1) ::raise(SIGKILL);
        }).detach();
      }
      const auto line = place.enter_alone(2);
      if (place.rank == 1) (void)!::write(joined[1], "", 1);
      place.wait_for_failure();
    });
    ::close(joined[0]);
    ::close(joined[1]);
    const std::string failure = fmt::format("rank {}, step -1: its process ended", victim);
    EXPECT_EQ(job.outcome(1 - victim), failure + " (speaks)");
    // It learns what happened, or comes when nobody is there any more.
    const std::string seen = job.outcome(2).value_or("nothing");
    EXPECT_TRUE(seen == failure ||
                seen.starts_with("RunError rank 2, step -1: cannot reach rank 0 at 127.0.0.1"))
        << seen;
  }
}

TEST(LostRank, WhoNeverComesIsNamed) {
  Job job(kRanks, [&](Place& place) -> std::string {
    if (place.rank == 2) return "stays away";
    const auto line = place.enter_alone(2);
    place.wait_for_failure();
  });
  job.expect_failure("rank 2, step -1: did not come within 2 s", 2);
}

// Alive, but not where the others are.
TEST(LostRank, WhoDoesNotComeToTheEndIsNamed) {
  std::vector<std::unique_ptr<Job>> jobs;
  for (int absent = 0; absent < kRanks; ++absent)
    jobs.push_back(std::make_unique<Job>(kRanks, [absent](Place& place) -> std::string {
      const auto line = place.enter(2);
      line->doing("reading");
      if (place.rank != absent) line->leave();
      place.wait_for_failure();
    }));
  // Those that have come to their end wait for rank 0, but are not judged any more.
  const std::string others_wait = "; others wait for it, and it waits for nobody";
  for (int absent = 0; absent < kRanks; ++absent)
    jobs[static_cast<std::size_t>(absent)]->expect_failure(
        fmt::format("rank {}, step -1: no progress for 2 s{} (reading)", absent,
                    absent == 0 ? "" : others_wait));
}

// Its part is done, and the others are not gone yet.
TEST(LostRank, WhoIsStoppedOrKilledAtItsEndIsNamed) {
  for (const int signal : {SIGSTOP, SIGKILL}) {
    Job job(kRanks, [](Place& place) -> std::string {
      const auto line = place.enter(2);
      line->doing("waiting for rank 0");
      const ShownOutsideWork works(line->pulse());
      place.mark();
      if (place.rank != 0) line->leave();
      place.wait_for_failure();
    });
    job.wait_for_marks();
    sleep_for(0.5);
    job.send_signal(1, signal);
    job.expect_failure(std::string("rank 1, step -1: ") +
                           (signal == SIGSTOP ? "no sign of life for 2 s" : "its process ended") +
                           " (waiting for rank 0)",
                       1);
  }
}

// A rank may stay in the ring for longer than the timeout while others wait for it at the end.
TEST(LostRank, BusyIsNotLost) {
  constexpr double kTimeout = 2;
  Job job(2, [](Place& place) -> std::string {
    const auto line = place.enter(kTimeout);
    RankPulse pulse;
    line->watch(pulse);
    const double end = steady_seconds() + 2 * kTimeout;
    while (place.rank == 1 && steady_seconds() < end) {
      pulse.advance();
      sleep_for(0.01);
    }
    line->unwatch();
    line->leave();
    return "good";
  });
  for (const int rank : {0, 1}) EXPECT_EQ(job.outcome(rank), "good");
}

// Lifelines are all well, but nobody gets on: rank 1 waits for rank 2, which does nothing.
TEST(LostRank, StandstillIsTheFaultOfWhoWaitsForNobody) {
  Job job(kRanks, [](Place& place) -> std::string {
    const auto line = place.enter(2);
    RankPulse pulse;
    pulse.at(Pass::backward, place.rank);
    pulse.waits_for(place.rank == 2 ? -1 : place.rank + 1);
    line->watch(pulse);
    place.wait_for_failure();
  });
  job.expect_failure(
      "rank 2, step 2: no progress for 2 s; others wait for it, and it waits for nobody "
      "(backward)");
}

// Failures that a rank tells: the same one ends all, with rank and step.

TEST(ToldFailure, OfAnyRankEndsAllWithRankAndStep) {
  for (int culprit = 0; culprit < kRanks; ++culprit)
    for (const bool is_input : {false, true}) {
      Job job(kRanks, [&](Place& place) -> std::string {
        const auto line = place.enter();
        RankPulse pulse;
        pulse.at(Pass::forward, 5 + place.rank);
        if (!is_input) line->watch(pulse);
        if (place.rank == culprit && is_input) line->fail(InputError("--q q.npy: no such file"));
        if (place.rank == culprit) line->fail(RunError("the device is gone"));
        place.wait_for_failure();
      });
      job.expect_failure(
          is_input ? fmt::format("rank {}, step -1: --q q.npy: no such file (bad input)", culprit)
                   : fmt::format("rank {}, step {}: the device is gone", culprit, 5 + culprit));
    }
}

// By then rank 0 has heard where that rank is.
TEST(ToldFailure, OfAnotherRankGetsItsStepFilledIn) {
  Job job(kRanks, [&](Place& place) -> std::string {
    const auto line = place.enter();
    RankPulse pulse;
    pulse.at(Pass::forward, 5 + place.rank);
    line->watch(pulse);
    if (place.rank == 1) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      line->fail(RunError("sent too little", 2));
    }
    place.wait_for_failure();
  });
  job.expect_failure("rank 2, step 7: sent too little");
}

TEST(ToldFailure, SeveralAtOnceAreOneForAll) {
  Job job(kRanks, [&](Place& place) -> std::string { place.enter()->fail(RunError("mine")); });
  std::string first = job.outcome(0).value_or("nothing");
  const std::string speaks = " (speaks)";
  ASSERT_TRUE(first.ends_with(", step -1: mine" + speaks)) << first;
  job.expect_failure(first.substr(0, first.size() - speaks.size()));
}

// Who exchanges blocks with a rank that dies notices something before the death is known.
TEST(ToldFailure, DeathCountsMoreThanItsConsequences) {
  for (const int teller : {0, 1}) {
    int word[2];
    ASSERT_EQ(::pipe(word), 0);
    Job job(kRanks, [&](Place& place) -> std::string {
      const auto line = place.enter();
      char byte = 0;
      if (place.rank == teller) {
        (void)!::write(word[1], &byte, 1);
        line->fail(RunError("a peer is gone"));
      }
      if (place.rank == 2 && ::read(word[0], &byte, 1) == 1) ::raise(SIGKILL);
      place.wait_for_failure();
    });
    job.expect_failure("rank 2, step -1: its process ended", 2);
    ::close(word[0]);
    ::close(word[1]);
  }
}

TEST(ToldFailure, OfARunOfOneIsItsOwn) {
  Job job(1, [](Place& place) -> std::string { place.enter()->fail(RunError("alone", -1, 2)); });
  job.expect_failure("rank 0, step 2: alone");
}

// Nobody is gone before all have come to the end.
TEST(Leaving, IsTogether) {
  void* const page = ::mmap(nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  for (int last = 0; last < kRanks; ++last) {
    auto& has_come = *new (page) std::atomic<bool>(false);
    Job job(kRanks, [&](Place& place) -> std::string {
      const auto line = place.enter();
      if (place.rank == last) {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        has_come = true;
      }
      line->leave();
      line->leave();  // once more does nothing
      return has_come ? "together" : "too early";
    });
    for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(job.outcome(rank), "together");
  }
  ::munmap(page, sizeof(std::atomic<bool>));
}

}  // namespace failures_test
}  // namespace ringscope

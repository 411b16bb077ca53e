// A rank that is killed or stopped, any rank in any phase: the others end, all with the same failure,
// which names it and its step, and one of them is to tell it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/core/process/job.h"

namespace ringscope {
namespace lost_ranks_test {

constexpr int kRanks = 3;

enum class Phase { collective, leaving, watched };

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// Goes round a ring, without a ring: all ranks are at step 3 of the backward pass and progress, until
// the run fails. Who was stopped for a while progresses no more.
std::string stay_in_the_ring(Lifeline& line, const std::function<void()>& is_there) {
  RankPulse pulse;
  pulse.at(Pass::backward, 3);
  std::atomic<bool> failed = false;
  line.watch(pulse, [&](const RunError&) { failed = true; });
  sleep_for(0.1);  // so that the step is known
  is_there();
  using Clock = std::chrono::steady_clock;
  for (auto last = Clock::now(); !failed; sleep_for(0.01)) {
    if (Clock::now() - last > std::chrono::milliseconds(700)) continue;
    pulse.advance();
    last = Clock::now();
  }
  line.unwatch();
  return failure_seen_by(line);
}

// All ranks come to `phase`; `victim` stays where it is.
std::string go_to(Phase phase, int victim, Place& place, double timeout_s) {
  const std::unique_ptr<Lifeline> line = place.enter(timeout_s);
  line->gather("");
  line->broadcast("");
  if (phase == Phase::watched) return stay_in_the_ring(*line, [&] { place.mark(); });
  place.mark();
  if (place.rank == victim) return failure_seen_by(*line);
  sleep_for(0.2);  // so that it is lost before it is missed
  try {
    if (phase == Phase::leaving) {
      line->leave();
    } else {
      line->gather("");
      line->broadcast("");
    }
  } catch (const RunError&) {
    return failure_seen_by(*line);
  }
  return "all is well";
}

void expect_all_see(Job& job, int victim, const std::string& failure) {
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == victim) continue;
    const bool speaks = rank == (victim == 0 ? 1 : 0);
    EXPECT_EQ(job.outcome(rank), failure + (speaks ? " (speaks)" : ""))
        << "rank " << rank << ", lost rank " << victim;
  }
}

// A phase and a victim, and the ranks that go there.
struct Loss {
  Phase phase;
  int victim;
  std::unique_ptr<Job> job;

  std::string failure(const std::string& what) const {
    const bool is_watched = phase == Phase::watched;
    return fmt::format("rank {}, step {}: {}{}", victim, is_watched ? 3 : -1, what,
                       is_watched ? " (backward)" : "");
  }
};

// All of them at once, since they mostly wait.
std::vector<Loss> all_losses(int signal, double timeout_s) {
  std::vector<Loss> losses;
  for (const Phase phase : {Phase::collective, Phase::leaving, Phase::watched})
    for (int victim = 0; victim < kRanks; ++victim) {
      losses.push_back({phase, victim, std::make_unique<Job>(kRanks, [=](Place& place) {
                          return go_to(phase, victim, place, timeout_s);
                        })});
      losses.back().job->wait_for_marks();
      losses.back().job->send_signal(victim, signal);
    }
  return losses;
}

TEST(LostRank, KilledIsNamedAtOnceInEveryPhase) {
  for (const Loss& loss : all_losses(SIGKILL, kPatience))
    expect_all_see(*loss.job, loss.victim, loss.failure("its process ended"));
}

// One that goes on later learns of its failure as well, and that it is not to tell it: others have
// done so.
TEST(LostRank, StoppedIsNamedAfterTheTimeoutInEveryPhase) {
  const auto begin = std::chrono::steady_clock::now();
  for (const Loss& loss : all_losses(SIGSTOP, 1)) {
    const std::string failure = loss.failure("no sign of life for 1 s");
    expect_all_see(*loss.job, loss.victim, failure);
    loss.job->send_signal(loss.victim, SIGCONT);
    EXPECT_EQ(loss.job->outcome(loss.victim), failure);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

// Rank 2 comes late.
TEST(LostRank, KilledBeforeAllHaveJoinedIsNamed) {
  for (const int victim : {0, 1}) {
    Job job(kRanks, [&](Place& place) {
      if (place.rank == 0) place.mark();
      if (place.rank == 2) {
        place.mark();
        sleep_for(0.1);
      }
      const auto line = place.enter();
      if (place.rank == 1) place.mark();
      return failure_seen_by(*line);
    });
    job.wait_for_marks();
    job.send_signal(victim, SIGKILL);
    EXPECT_EQ(job.outcome(1 - victim), victim == 0 ? "rank 0, step -1: its process ended (speaks)"
                                                   : "RunError rank 1, step -1: its process ended");
    // It learns what happened, or comes when nobody is there any more.
    const std::string seen = job.outcome(2).value_or("nothing");
    EXPECT_TRUE(seen.starts_with(fmt::format("rank {}, step -1: its process ended", victim)) ||
                seen.starts_with("RunError rank 0, step -1: rank 2 cannot reach it at 127.0.0.1"))
        << seen;
  }
}

TEST(LostRank, WhoNeverComesIsNamed) {
  Job job(kRanks, [&](Place& place) {
    if (place.rank == 2) return std::string("stays away");
    const auto line = place.enter(0.5);
    return failure_seen_by(*line);
  });
  EXPECT_EQ(job.outcome(0), "RunError rank 2, step -1: did not come within 0.5 s");
  EXPECT_EQ(job.outcome(1), "rank 2, step -1: did not come within 0.5 s");
}

// Alive, but not where the others are.
TEST(LostRank, WhoDoesNotComeToACollectiveIsNamed) {
  std::vector<std::unique_ptr<Job>> jobs;
  for (int absent = 0; absent < kRanks; ++absent)
    jobs.push_back(std::make_unique<Job>(kRanks, [absent](Place& place) {
      const auto line = place.enter(0.5);
      if (place.rank == absent) return failure_seen_by(*line);
      EXPECT_THROW((line->gather(""), line->broadcast("")), RunError);
      return failure_seen_by(*line);
    }));
  for (int absent = 0; absent < kRanks; ++absent)
    for (int rank = 0; rank < kRanks; ++rank)
      EXPECT_EQ(jobs[static_cast<std::size_t>(absent)]->outcome(rank),
                fmt::format("rank {}, step -1: did not come for 0.5 s to where others wait{}",
                            absent, rank == 0 ? " (speaks)" : ""));
}

// A rank may stay in the ring for longer than the timeout while others wait for it at the end.
TEST(LostRank, BusyIsNotLost) {
  Job job(2, [](Place& place) -> std::string {
    const auto line = place.enter(0.8);
    RankPulse pulse;
    line->watch(pulse, [](const RunError&) {});
    if (place.rank == 1)
      for (int i = 0; i < 110; ++i) {
        pulse.advance();
        sleep_for(0.01);
      }
    line->unwatch();
    const auto all = line->gather("here");
    line->leave();
    return all.empty() ? "sent" : all[1];
  });
  EXPECT_EQ(job.outcome(0), "here");
  EXPECT_EQ(job.outcome(1), "sent");
}

// Lifelines are all well, but nobody gets on: rank 1 waits for rank 2, which does nothing.
TEST(LostRank, StandstillIsTheFaultOfWhoWaitsForNobody) {
  Job job(kRanks, [](Place& place) {
    const auto line = place.enter(0.5);
    RankPulse pulse;
    pulse.at(Pass::forward, place.rank);
    pulse.waits_for(place.rank == 2 ? -1 : place.rank + 1);
    std::atomic<bool> failed = false;
    line->watch(pulse, [&](const RunError&) { failed = true; });
    const std::string seen = failure_seen_by(*line);
    line->unwatch();
    return seen + (failed ? "" : ", but was not told");
  });
  const std::string failure = job.outcome(0).value_or("nothing");
  EXPECT_TRUE(failure.starts_with("rank 2, step 2: no progress for 0.5 s")) << failure;
  EXPECT_TRUE(failure.ends_with(" (speaks)")) << failure;
  for (const int rank : {1, 2}) EXPECT_EQ(job.outcome(rank).value_or("") + " (speaks)", failure);
}

}  // namespace lost_ranks_test
}  // namespace ringscope

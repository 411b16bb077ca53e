// Failures that a rank tells: the same one ends all, with rank and step.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/core/ranks/process/job.h"

namespace ringscope {
namespace told_failures_test {

constexpr int kRanks = 3;

TEST(ToldFailure, OfAnyRankEndsAllWithRankAndStep) {
  for (int culprit = 0; culprit < kRanks; ++culprit) {
    Job job(kRanks, [&](Place& place) -> std::string {
      const auto line = place.enter();
      RankPulse pulse;
      pulse.at(Pass::forward, 5 + place.rank);
      line->watch(pulse);
      if (place.rank == culprit) line->fail(RunError("the device is gone"));
      place.wait_for_failure();
    });
    job.expect_failure(fmt::format("rank {}, step {}: the device is gone", culprit, 5 + culprit));
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

TEST(ToldFailure, OfBadInputIsAnotherStatus) {
  for (int culprit = 0; culprit < kRanks; ++culprit) {
    Job job(kRanks, [&](Place& place) -> std::string {
      const auto line = place.enter();
      if (place.rank == culprit) line->fail(InputError("--q q.npy: no such file"));
      place.wait_for_failure();
    });
    job.expect_failure(
        fmt::format("rank {}, step -1: --q q.npy: no such file (bad input)", culprit));
  }
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

}  // namespace told_failures_test
}  // namespace ringscope

// A rank is killed, every rank at every step, by itself or by somebody else; or it stands still.
#include <signal.h>

#include <chrono>
#include <thread>

#include "tests/mpi_faults/job.h"

namespace ringscope {
namespace {

// A run that a failure leaves no output of, but a recording.
const Strings kFiles{"--out", "o.npy", "--lse", "l.npy", "--trace", "t.json"};

using Killed = FaultTest;

TEST_F(Killed, EveryRankAtEveryStep) {
  struct Place {
    int world_size, rank, step;
  };
  std::vector<Place> places;
  for (const int world_size : {2, 4})
    for (int rank = 0; rank < world_size; ++rank)
      for (int step = 0; step < world_size - 1; ++step) places.push_back({world_size, rank, step});
  for_each(places.size(), 4, [&](std::size_t i) {
    const auto [world_size, rank, step] = places[i];
    const std::string r = std::to_string(rank), s = std::to_string(step);
    SCOPED_TRACE("rank " + r + " of " + std::to_string(world_size) + ", step " + s);
    const auto job = start(
        ranks(world_size, Strings{"--random", "--seqlen", "61", "--head-dim", "8", "--mask",
                                  "causal", "--partition", "zigzag", "--backward", "--timeout", "5",
                                  "--inject", "killed-rank@" + r + ":" + s} +
                              kFiles));
    const JobEnd end = job->end();
    expect_failed(end, kStartSeconds + kEndSeconds,
                  {"ringscope: rank " + r + ", step " + s + ": its process ended"});
    // It is rank 0 that writes what was recorded.
    if (rank == 0) {
      EXPECT_EQ(job->files(), std::set<std::string>{});
    } else {
      const Recording recording = expect_only_recording(*job, end, world_size, rank, step);
      ASSERT_FALSE(recording.events.empty());
      EXPECT_FALSE(recording.events[0].empty());
    }
  });
}

// Takes a while, long enough to be struck in the midst of it.
const Strings kLong{"--random", "--seqlen", "60000", "--heads", "1", "--head-dim", "16"};

TEST_F(Killed, EveryRankFromOutside) {
  for_each(3, 3, [&](std::size_t i) {
    const int rank = static_cast<int>(i);
    SCOPED_TRACE("rank " + std::to_string(rank));
    const auto job = start(ranks(3, kLong + Strings{"--timeout", "5"} + kFiles));
    ASSERT_TRUE(job->wait_for_ring(3)) << job->end().text();
    job->strike(job->working(rank), SIGKILL);
    const JobEnd end = job->end();
    expect_failed(end, kEndSeconds,
                  {"rank " + std::to_string(rank) + ", step ", ": its process ended"});
    EXPECT_EQ(job->files().size(), rank == 0 ? 0u : 1u);
  });
}

// At any moment of its start, also when the others do not watch over it yet.
TEST_F(Killed, ARankThatStarts) {
  for_each(6, 3, [&](std::size_t i) {
    const int rank = static_cast<int>(i) % 2, delay_ms = 100 * (static_cast<int>(i) / 2);
    SCOPED_TRACE("rank " + std::to_string(rank) + " after " + std::to_string(delay_ms) + " ms");
    const auto job = start(ranks(2, kLong + Strings{"--timeout", "5"} + kFiles));
    ASSERT_TRUE(job->wait_for_start(rank));
    std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
    job->strike(job->working(rank), SIGKILL);
    const JobEnd end = job->end();
    expect_failed(end, kEndSeconds, {"ringscope: rank " + std::to_string(rank)});
    EXPECT_FALSE(job->files().contains("o.npy"));
  });
}

// The process that waits for a rank is what launchers know of it: what they do to a job, it must
// hand on, and when it is killed itself the rank must not stay. (What status that gives is the
// launcher's to say.)
TEST_F(Killed, TheOneThatWaitsForARankTakesItAlong) {
  for_each(2, 2, [&](std::size_t i) {
    const int signal = i == 0 ? SIGKILL : SIGTERM;
    SCOPED_TRACE("signal " + std::to_string(signal));
    const auto job = start(ranks(2, kLong + kFiles));
    ASSERT_TRUE(job->wait_for_ring(2)) << job->end().text();
    job->strike(job->waiting(1), signal);
    const JobEnd end = job->end();
    EXPECT_NE(end.status, 0);
    EXPECT_LE(end.lines.size(), 1u) << end.text();
    EXPECT_LE(end.seconds, 2 * kEndSeconds) << end.text();
    EXPECT_EQ(end.left_over, Strings{});
    EXPECT_FALSE(job->files().contains("o.npy"));
  });
}

// A rank that lives but gives no sign of it: SIGSTOP of either of its processes.
class Stopped : public FaultTest {
 protected:
  // `process(job, rank)`: the one to stop.
  template <class F>
  void expect_end_when_stopped(const F& process) {
    constexpr double kTimeoutSeconds = 1;
    for_each(3, 3, [&](std::size_t i) {
      const int rank = static_cast<int>(i);
      SCOPED_TRACE("rank " + std::to_string(rank));
      const auto job =
          start(ranks(3, kLong + Strings{"--timeout", "1", "--out", "o.npy", "--trace", "t.json"}));
      ASSERT_TRUE(job->wait_for_ring(3)) << job->end().text();
      job->strike(process(*job, rank), SIGSTOP);
      const JobEnd end = job->end();
      expect_failed(end, kTimeoutSeconds + kEndSeconds,
                    {"rank " + std::to_string(rank) + ", step ", ": no sign of life for 1 s"});
      EXPECT_EQ(job->files(),
                rank == 0 ? std::set<std::string>{} : std::set<std::string>{"t.json"});
    });
  }
};

TEST_F(Stopped, EveryRank) {
  expect_end_when_stopped([](const Job& job, int rank) { return job.working(rank); });
}

TEST_F(Stopped, EveryRankAsItsLauncherKnowsIt) {
  expect_end_when_stopped([](const Job& job, int rank) { return job.waiting(rank); });
}

}  // namespace
}  // namespace ringscope

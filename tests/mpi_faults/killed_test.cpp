// A rank is killed or stopped, every rank, at every step and in every other phase from its start to its
// end: the job ends, and one line names the rank and says where it was.
#include <signal.h>

#include <chrono>
#include <thread>

#include "tests/mpi_faults/job.h"

namespace ringscope {
namespace {

// What a failed run must not leave behind.
const Strings kFiles{"--out", "o.npy", "--lse", "l.npy", "--trace", "t.json"};
const Strings kShort{"--random", "--seqlen", "61", "--head-dim", "8", "--timeout", "3"};
// Takes a while, long enough to be struck in the midst of it.
const Strings kLong{"--random", "--seqlen", "200000", "--heads", "1", "--head-dim", "16"};

std::string named(int rank) { return "ringscope: rank " + std::to_string(rank); }

using Killed = FaultTest;

TEST_F(Killed, EveryRankAtEveryStep) {
  struct Place {
    int world_size, rank, step;
  };
  std::vector<Place> places;
  for (const int world_size : {2, 3})
    for (int rank = 0; rank < world_size; ++rank)
      for (int step = 0; step < world_size - 1; ++step) places.push_back({world_size, rank, step});
  for_each(places.size(), 4, [&](std::size_t i) {
    const auto [world_size, rank, step] = places[i];
    const std::string place = std::to_string(rank) + ":" + std::to_string(step);
    SCOPED_TRACE(place + " of " + std::to_string(world_size));
    const auto job =
        start(ranks(world_size, kShort +
                                    Strings{"--mask", "causal", "--partition", "zigzag",
                                            "--backward", "--inject", "killed-rank@" + place} +
                                    kFiles));
    expect_failed(*job, job->end(),
                  {named(rank) + ", step " + std::to_string(step) + ": its process ended"});
  });
}

TEST_F(Killed, EveryRankFromOutside) {
  for_each(3, 3, [&](std::size_t i) {
    const int rank = static_cast<int>(i);
    const auto job = start(ranks(3, kLong + Strings{"--timeout", "3"} + kFiles));
    ASSERT_TRUE(job->wait_for_ring(3)) << job->end().text();
    job->strike(job->working(rank), SIGKILL);
    expect_failed(*job, job->end(), {named(rank) + ", step ", ": its process ended"});
  });
}

// At any moment of its start, also when the others do not watch over it yet.
TEST_F(Killed, OrStoppedARankThatStarts) {
  for_each(6, 3, [&](std::size_t i) {
    const int rank = static_cast<int>(i) % 2, delay_ms = 100 * (static_cast<int>(i) / 2);
    const int signal = (i + i / 2) % 2 == 0 ? SIGKILL : SIGSTOP;
    SCOPED_TRACE("rank " + std::to_string(rank) + " after " + std::to_string(delay_ms) +
                 " ms by signal " + std::to_string(signal));
    const auto job = start(ranks(2, kLong + Strings{"--timeout", "3"} + kFiles));
    ASSERT_TRUE(job->wait_for_start(rank));
    std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
    job->strike(job->working(rank), signal);
    expect_failed(*job, job->end(), {named(rank)});
  });
}

// The calls of MPI that wait for others, and what comes after the ring.
TEST_F(Killed, OrStoppedARankOutsideOfTheRing) {
  struct Strike {
    const char* where;
    int rank, signal;
    Strings arguments;
    std::string said;
  };
  const Strings verify = kShort + Strings{"--verify"};
  const std::string apart = " before the ranks had met";
  std::vector<Strike> strikes;
  for (const int rank : {0, 1}) {
    strikes.insert(
        strikes.end(),
        {{"MPI_Init_thread", rank, SIGKILL, kShort, "its process ended by signal 9" + apart},
         {"MPI_Init_thread", rank, SIGSTOP, kShort, "its process was stopped for 3 s" + apart},
         {"MPI_Finalize", rank, SIGKILL, kShort, "its process ended (in MPI_Finalize)"},
         {"MPI_Finalize", rank, SIGSTOP, kShort, "no sign of life for 3 s (in MPI_Finalize)"}});
  }
  strikes.insert(strikes.end(),
                 {{"after", 0, SIGKILL, verify, "its process ended (verifying and writing)"},
                  {"after", 0, SIGSTOP, verify, "no sign of life for 3 s (verifying and writing)"},
                  {"after", 1, SIGKILL, verify, "its process ended (waiting for rank 0)"},
                  {"after", 1, SIGSTOP, verify, "no sign of life for 3 s (waiting for rank 0)"}});
  for_each(strikes.size(), 4, [&](std::size_t i) {
    const Strike& strike = strikes[i];
    SCOPED_TRACE(strike.where + std::string(" ") + std::to_string(strike.rank) + " " +
                 std::to_string(strike.signal));
    const auto job = start(ranks(2, strike.arguments + kFiles),
                           {"LD_PRELOAD=" RINGSCOPE_STRIKE_LIBRARY,
                            "RINGSCOPE_STRIKE=" + std::string(strike.where) + " " +
                                std::to_string(strike.rank) + " " + std::to_string(strike.signal)});
    expect_failed(*job, job->end(), {named(strike.rank) + ": " + strike.said});
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
    EXPECT_EQ(end.left_over, Strings{});
    EXPECT_EQ(job->files(), std::set<std::string>{});
  });
}

// A rank that lives but gives no sign of it, whichever of its processes is stopped.
TEST_F(Killed, OrStoppedEveryRankByEitherOfItsProcesses) {
  for_each(4, 4, [&](std::size_t i) {
    const int rank = static_cast<int>(i) % 2;
    SCOPED_TRACE("rank " + std::to_string(rank) + (i < 2 ? ", working" : ", waiting"));
    const auto job = start(ranks(2, kLong + Strings{"--timeout", "3"} + kFiles));
    ASSERT_TRUE(job->wait_for_ring(2)) << job->end().text();
    job->strike(i < 2 ? job->working(rank) : job->waiting(rank), SIGSTOP);
    expect_failed(*job, job->end(), {named(rank) + ", step ", ": no sign of life for 3 s"});
  });
}

}  // namespace
}  // namespace ringscope

// A rank stands still: SIGSTOP of either of its processes. It lives, but gives no sign of it.
#include <signal.h>

#include "tests/mpi_faults/job.h"

namespace ringscope {
namespace {

class Stopped : public FaultTest {
 protected:
  // `process(job, rank)`: the one to stop.
  template <class F>
  void expect_end_when_stopped(const F& process) {
    constexpr double kTimeout = 1;
    for_each(3, 3, [&](std::size_t i) {
      const int rank = static_cast<int>(i);
      SCOPED_TRACE("rank " + std::to_string(rank));
      const auto job =
          start(ranks(3, {"--random", "--seqlen", "60000", "--heads", "1", "--head-dim", "16",
                          "--timeout", "1", "--out", "o.npy", "--trace", "t.json"}));
      ASSERT_TRUE(job->wait_for_ring(3)) << job->end().text();
      job->strike(process(*job, rank), SIGSTOP);
      const JobEnd end = job->end();
      expect_failed(end, kTimeout + kEndSeconds,
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

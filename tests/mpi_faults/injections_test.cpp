// The other mistakes that --inject makes, of every rank: how the job ends.
#include "core/ring/faults.h"
#include "core/trace/chrome_trace.h"
#include "tests/mpi_faults/job.h"

namespace ringscope {
namespace {

constexpr int kRanks = 3;

Strings with_fault(const std::string& fault, const Strings& more = {}) {
  return ranks(kRanks, Strings{"--random", "--seqlen", "61", "--head-dim", "8", "--inject", fault,
                               "--timeout", "1", "--out", "o.npy", "--trace", "t.json"} +
                           more);
}

class Injected : public FaultTest {
 protected:
  // For all places of `fault`: `parts(rank)` of the line that names the place.
  template <class F>
  void expect_end_everywhere(Fault fault, const F& parts) {
    constexpr int kSteps = kRanks - 1;
    for_each(kRanks * kSteps, 3, [&](std::size_t i) {
      const int rank = static_cast<int>(i) / kSteps, step = static_cast<int>(i) % kSteps;
      const std::string text = to_string(Injection{fault, rank, step});
      SCOPED_TRACE(text);
      const auto job = start(with_fault(text));
      const std::string place =
          "rank " + std::to_string(rank) + ", step " + std::to_string(step) + ": ";
      expect_failed(*job, job->end(), Strings{place} + parts(rank));
    });
  }
};

TEST_F(Injected, AReceiveThatIsNeverPosted) {
  expect_end_everywhere(Fault::unposted_recv, [](int) {
    return Strings{"no progress for 1 s; others wait for it, and it waits for nobody"};
  });
}

TEST_F(Injected, AWrongCount) {
  expect_end_everywhere(Fault::wrong_count, [](int rank) {
    return Strings{": sent ", "where rank " + std::to_string((rank + 1) % kRanks) + " expected "};
  });
}

TEST_F(Injected, ASendBeforeTheReceive) {
  const auto job = start(with_fault("send-first@0:1"));
  expect_failed(*job, job->end(),
                {", step 1: no progress for 1 s: ranks wait for each other, 0 for 1 for 2 for 0"});
}

TEST_F(Injected, ABlockThatIsOverwrittenGivesWrongNumbers) {
  for_each(kRanks, 3, [&](std::size_t rank) {
    const auto job =
        start(with_fault("early-reuse@" + std::to_string(rank), {"--verify", "--json"}));
    const JobEnd end = job->end();
    SCOPED_TRACE(end.text());
    EXPECT_EQ(end.status, 1);
    EXPECT_NE(end.out.find(R"("verify":{"pass":false)"), std::string::npos);
    EXPECT_EQ(end.left_over, Strings{});
    ASSERT_EQ(end.lines.size(), 1u);
    EXPECT_NE(end.lines[0].find("--verify: out is off by"), std::string::npos);
  });
}

TEST_F(Injected, ASlowRankIsOnlySlow) {
  for_each(kRanks, 3, [&](std::size_t rank) {
    const auto job = start(with_fault("slow-rank@" + std::to_string(rank), {"--verify"}));
    const JobEnd end = job->end();
    SCOPED_TRACE(end.text());
    EXPECT_EQ(end.status, 0);
    EXPECT_EQ(end.lines, Strings{});
    EXPECT_EQ(end.left_over, Strings{});
    ASSERT_TRUE(job->files().contains("t.json"));
    const Recording recording = read_chrome_trace(job->path("t.json"));
    bool is_waited_for = false;
    for (const auto& events : recording.events)
      for (const TraceEvent& event : events)
        is_waited_for = is_waited_for ||
                        (event.lane == Lane::wait && event.waiting_for == static_cast<int>(rank));
    EXPECT_TRUE(is_waited_for);
  });
}

}  // namespace
}  // namespace ringscope

// The other mistakes that --inject makes, of every rank: how the run ends, and what its recording
// shows.
#include <algorithm>

#include "core/ring/faults.h"
#include "core/trace/chrome_trace.h"
#include "tests/mpi_faults/job.h"

namespace ringscope {
namespace {

constexpr int kRanks = 3;
constexpr double kTimeout = 1;

Strings with_fault(const std::string& fault, const Strings& more = {}) {
  return ranks(kRanks, Strings{"--random", "--seqlen", "61", "--head-dim", "8", "--inject", fault,
                               "--timeout", "1", "--out", "o.npy", "--trace", "t.json"} +
                           more);
}

template <class Predicate>
bool shows(const Recording& recording, const Predicate& predicate) {
  return std::ranges::any_of(
      recording.events, [&](const auto& events) { return std::ranges::any_of(events, predicate); });
}

bool shows_wait_for(const Recording& recording, int rank) {
  return shows(recording, [&](const TraceEvent& event) {
    return event.lane == Lane::wait && event.waiting_for == rank;
  });
}

class Injected : public FaultTest {
 protected:
  // For all places of `fault`: `parts(rank, step)` of the line.
  template <class F>
  void expect_end_everywhere(Fault fault, bool by_timeout, const F& parts) {
    constexpr int kSteps = kRanks - 1;
    for_each(kRanks * kSteps, 3, [&](std::size_t i) {
      const int rank = static_cast<int>(i) / kSteps, step = static_cast<int>(i) % kSteps;
      const std::string text = to_string(Injection{fault, rank, step});
      SCOPED_TRACE(text);
      const auto job = start(with_fault(text));
      const JobEnd end = job->end();
      expect_failed(end, kStartSeconds + (by_timeout ? kTimeout : 0) + kEndSeconds,
                    parts(rank, step));
      const Recording recording = expect_only_recording(*job, end, kRanks, rank, step);
      if (by_timeout) {
        EXPECT_GE(end.seconds, kTimeout);
        EXPECT_TRUE(shows_wait_for(recording, rank));
        // What it sent has arrived.
        EXPECT_TRUE(shows(recording, [&](const TraceEvent& event) {
          return event.lane == Lane::recv && event.src == rank && event.step == step;
        }));
      }
    });
  }
  static std::string at(int rank, int step) {
    return "rank " + std::to_string(rank) + ", step " + std::to_string(step) + ": ";
  }
};

TEST_F(Injected, AReceiveThatIsNeverPosted) {
  expect_end_everywhere(Fault::unposted_recv, true, [](int rank, int step) {
    return Strings{at(rank, step) +
                   "no progress for 1 s; others wait for it, and it waits for nobody"};
  });
}

TEST_F(Injected, AWrongCount) {
  expect_end_everywhere(Fault::wrong_count, false, [](int rank, int step) {
    return Strings{at(rank, step) + "sent ",
                   "where rank " + std::to_string((rank + 1) % kRanks) + " expected "};
  });
}

TEST_F(Injected, ASendBeforeTheReceive) {
  const auto job = start(with_fault("send-first@0:1"));
  const JobEnd end = job->end();
  expect_failed(end, kStartSeconds + kTimeout + kEndSeconds,
                {", step 1: no progress for 1 s: ranks wait for each other, 0 for 1 for 2 for 0"});
  const Recording recording = expect_only_recording(*job, end, kRanks, 0, 1);
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(shows_wait_for(recording, rank)) << rank;
}

TEST_F(Injected, ABlockThatIsOverwrittenGivesWrongNumbers) {
  for_each(kRanks, 3, [&](std::size_t rank) {
    const auto job =
        start(with_fault("early-reuse@" + std::to_string(rank), {"--verify", "--json"}));
    const JobEnd end = job->end();
    SCOPED_TRACE(end.text());
    EXPECT_EQ(end.status, 1);
    ASSERT_EQ(end.lines.size(), 1u);
    EXPECT_NE(end.lines[0].find("--verify: out is off by"), std::string::npos);
    EXPECT_EQ(end.left_over, Strings{});
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
    EXPECT_FALSE(recording.info.failure.has_value());
    EXPECT_TRUE(shows_wait_for(recording, static_cast<int>(rank)));
  });
}

}  // namespace
}  // namespace ringscope

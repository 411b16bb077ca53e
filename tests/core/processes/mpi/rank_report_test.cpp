#include "core/processes/mpi/rank_report.h"

#include <gtest/gtest.h>

#include <tuple>

#include "core/base/error.h"

namespace ringscope {
namespace {

RankReport sample_report() {
  RankReport report;
  report.origin_ns = 1000000;
  report.begin_ns = 100;
  report.end_ns = 2000100;
  report.predicted_bytes = 77;
  report.before = ClockReading{1000000, 5000, 10};
  report.after = ClockReading{3000000, 7000, 30};
  TraceEvent event;
  event.begin_ns = 0;
  event.end_ns = 1000000;
  event.pairs = 12;
  report.events.events = {event};
  SoftmaxSample sample;
  sample.rank = 1;
  sample.at_ns = 500000;
  report.events.samples = {sample};
  report.events.dropped = 3;
  report.events.peak_bytes = 88;
  report.events.clock_error_ns = 4;
  return report;
}

RingRun run_of_two() {
  RingRun run;
  run.recording.info.world_size = 2;
  run.recording.info.clock_offset_ns.resize(2);
  run.recording.info.clock_error_ns.resize(2);
  run.recording.events.resize(2);
  run.recording.dropped.resize(2);
  run.peak_bytes.resize(2);
  run.predicted_bytes.resize(2);
  return run;
}

TEST(RankReport, TravelsAsBytes) {
  const RankReport report = sample_report();
  const RankReport back = unpack_rank_report(pack(report));
  EXPECT_EQ(std::tie(back.origin_ns, back.begin_ns, back.end_ns, back.predicted_bytes),
            std::tie(report.origin_ns, report.begin_ns, report.end_ns, report.predicted_bytes));
  EXPECT_EQ(back.events, report.events);
  EXPECT_EQ(std::tuple(back.before->at, back.before->offset, back.before->error),
            std::tuple(1000000, 5000, 10));
  EXPECT_EQ(std::tuple(back.after->at, back.after->offset, back.after->error),
            std::tuple(3000000, 7000, 30));
  RankReport bare;
  EXPECT_FALSE(unpack_rank_report(pack(bare)).before.has_value());
}

TEST(RankReport, CutShortItIsRefused) {
  const std::string bytes = pack(sample_report());
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(unpack_rank_report(std::string_view(bytes).substr(0, length)), RunError);
}

TEST(RankReport, EventsComeToStandOnTheClockOfRankZero) {
  RingRun run = run_of_two();
  add_report(run, 1, sample_report(), 1002000);  // rank 0's origin, by its clock
  const TraceEvent& event = run.recording.events[1].at(0);
  // 1,000,000 of the rank's clock are 1,005,000 of rank 0's: 3,000 after rank 0's origin.
  EXPECT_EQ(std::tuple(event.begin_ns, event.end_ns, event.pairs), std::tuple(3000, 1004000, 12));
  EXPECT_EQ(run.recording.samples.at(0).at_ns, 503500);
  EXPECT_EQ(run.recording.info.clock_offset_ns, (std::vector<std::int64_t>{0, -5000}));
  EXPECT_GE(run.recording.info.clock_error_ns[1], 30 + 4);
  EXPECT_LE(run.recording.info.clock_error_ns[1], 30 + 4 + 3);
  EXPECT_EQ(std::tuple(run.recording.dropped[1], run.peak_bytes[1], run.predicted_bytes[1]),
            std::tuple(3, 88, 77));
  EXPECT_DOUBLE_EQ(run.wall_s, 0.002);
}

TEST(RankReport, RankZeroKeepsItsTimes) {
  RingRun run = run_of_two();
  RankReport report = sample_report();
  report.before.reset();
  report.after.reset();
  add_report(run, 0, report, report.origin_ns);
  EXPECT_EQ(run.recording.events[0], report.events.events);
  EXPECT_EQ(run.recording.info.clock_error_ns[0], 4);
}

}  // namespace
}  // namespace ringscope

#include "core/ranks/mpi/rank_report.h"

#include <algorithm>

namespace ringscope {

namespace {

// The part of a report that has a fixed size.
struct Head {
  std::int64_t origin_ns, begin_ns, end_ns, predicted_bytes;
  std::int64_t has_readings;
  ClockReading before, after;
};

void shift(std::int64_t& time, const ClockMap& map, std::int64_t origin_ns,
           std::int64_t reference_origin_ns) {
  time = map.to_reference(origin_ns + time) - reference_origin_ns;
}

}  // namespace

std::string pack(const RankReport& report) {
  const Head head{report.origin_ns,
                  report.begin_ns,
                  report.end_ns,
                  report.predicted_bytes,
                  report.before.has_value(),
                  report.before.value_or(ClockReading{}),
                  report.after.value_or(ClockReading{})};
  return bytes_of_value(head) + pack(report.events);
}

RankReport unpack_rank_report(std::string_view bytes) {
  const Head head = take_value<Head>(bytes);
  RankReport report;
  report.origin_ns = head.origin_ns;
  report.begin_ns = head.begin_ns;
  report.end_ns = head.end_ns;
  report.predicted_bytes = head.predicted_bytes;
  if (head.has_readings != 0) report.before = head.before, report.after = head.after;
  report.events = unpack_rank_events(bytes);
  return report;
}

void add_report(RingRun& run, int rank, RankReport report, std::int64_t reference_origin_ns) {
  RankEvents& of_rank = report.events;
  if (report.before) {
    const ClockMap map(*report.before, *report.after);
    for (TraceEvent& event : of_rank.events) {
      shift(event.begin_ns, map, report.origin_ns, reference_origin_ns);
      shift(event.end_ns, map, report.origin_ns, reference_origin_ns);
    }
    for (SoftmaxSample& sample : of_rank.samples)
      shift(sample.at_ns, map, report.origin_ns, reference_origin_ns);
    run.recording.info.clock_offset_ns[rank] = -map.offset_at(report.origin_ns + report.begin_ns);
    of_rank.clock_error_ns += map.error();
  }
  run.peak_bytes[rank] = of_rank.peak_bytes;
  run.predicted_bytes[rank] = report.predicted_bytes;
  run.wall_s = std::max(run.wall_s, static_cast<double>(report.end_ns - report.begin_ns) * 1e-9);
  add_rank(run.recording, rank, std::move(of_rank));
}

}  // namespace ringscope

#include "core/processes/mpi/rank_report.h"

#include <algorithm>

namespace ringscope {

namespace {

void shift(std::int64_t& time, const ClockMap& map, std::int64_t origin_ns,
           std::int64_t reference_origin_ns) {
  time = map.to_reference(origin_ns + time) - reference_origin_ns;
}

}  // namespace

std::string pack(const RankReport& report) {
  return bytes_of_value<RankTimes>(report) + pack(report.events);
}

RankReport unpack_rank_report(std::string_view bytes) {
  const RankTimes times = take_value<RankTimes>(bytes);
  return {times, unpack_rank_events(bytes)};
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

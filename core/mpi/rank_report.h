// What rank 0 learns of a rank when its part of the run is over, and how the reports of all become one
// recording on rank 0's clock.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/mpi/clock.h"
#include "core/run/run.h"
#include "core/trace/rank_events.h"

namespace ringscope {

struct RankReport {
  std::int64_t origin_ns = 0;  // what is 0 in its events, by its monotonic clock
  std::int64_t begin_ns = 0;   // of the ring, after the origin
  std::int64_t end_ns = 0;     // the same; with a failure: of what there is
  std::int64_t predicted_bytes = 0;
  std::optional<ClockReading> before, after;  // of rank 0's clock; none on rank 0
  RankEvents events;
};

std::string pack(const RankReport& report);
// Throws RunError for what pack() cannot have made.
RankReport unpack_rank_report(std::string_view bytes);

// Adds `rank`'s report to `run`: its events and samples, on the clock of the rank whose origin is
// `reference_origin_ns`, its bytes and time. The lists of run.recording are as long as its world_size.
void add_report(RingRun& run, int rank, RankReport report, std::int64_t reference_origin_ns);

}  // namespace ringscope

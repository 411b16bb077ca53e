// A rank's report to rank 0 when its part of the run is over. Rank 0 merges all reports into one
// recording on its own clock. The messages themselves go over the lifeline.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/base/error.h"
#include "core/processes/mpi/clock.h"
#include "core/threads/run.h"
#include "core/trace/rank_events.h"

namespace ringscope {

// Return a value as it lies in memory, for another process of the same program.
template <class T>
std::string bytes_of_value(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// Take such a value from the front of a rank's report. Throw RunError when it is cut short.
template <class T>
T take_value(std::string_view& report) {
  T value;
  if (report.size() < sizeof value) throw RunError("a rank's report is cut short");
  std::memcpy(&value, report.data(), sizeof value);
  report.remove_prefix(sizeof value);
  return value;
}

// The part of a report that has a fixed size.
struct RankTimes {
  std::int64_t origin_ns = 0;  // zero of its events' times, on its monotonic clock
  std::int64_t begin_ns = 0;   // of the ring, relative to the origin
  std::int64_t end_ns = 0;     // likewise
  std::int64_t predicted_bytes = 0;
  std::optional<ClockReading> before, after;  // of rank 0's clock; neither on rank 0
};

struct RankReport : RankTimes {
  RankEvents events;
};

std::string pack(const RankReport& report);
// Throw RunError for bytes that pack() cannot have made.
RankReport unpack_rank_report(std::string_view bytes);

// Add `rank`'s events, samples, bytes and time to `run`, on the clock of the rank whose origin is
// `reference_origin_ns`. The lists of run.recording are as long as its world_size.
void add_report(RingRun& run, int rank, RankReport report, std::int64_t reference_origin_ns);

}  // namespace ringscope

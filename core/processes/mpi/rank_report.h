// A rank's report to rank 0 when its part of the run is over. Rank 0 merges all reports into one
// recording on its own clock. The messages themselves go over the lifeline.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/error.h"
#include "core/processes/mpi/mpi_calls.h"
#include "core/threads/run.h"
#include "core/trace/rank_events.h"

namespace ringscope {

// ---
// One clock for all ranks. Every host has its own monotonic clock; these begin at different times,
// and their rates differ by some millionths. Rank 0's clock is the run's. The others measure by
// messages, before and after the run, how far they are from it, and their times are shifted.
//
// A rank notes its time, asks rank 0 for its time, and notes its own again when the answer comes.
// Rank 0 answered somewhere in between, so the offset is rank 0's time minus the middle of the two.
// It is wrong by at most half the round trip, whichever way took longer. The shortest of many round
// trips counts. Between the two measurements the offset is taken to grow evenly.

// One question and its answer, in nanoseconds. `asked` and `answered` are on the rank's clock,
// `reference` on rank 0's.
struct RoundTrip {
  std::int64_t asked = 0;
  std::int64_t reference = 0;
  std::int64_t answered = 0;
};

// At `at` on the rank's clock, rank 0's clock showed `at` + `offset`, give or take `error`.
struct ClockReading {
  std::int64_t at = 0;
  std::int64_t offset = 0;
  std::int64_t error = 0;
};

// Return the reading of the shortest round trip. `trips` is not empty.
ClockReading read_clock(const std::vector<RoundTrip>& trips);

// Maps times on a rank's clock to rank 0's.
class ClockMap {
 public:
  ClockMap(const ClockReading& before, const ClockReading& after);

  // Return rank 0's time for one on the rank's clock. This never changes the order of two times.
  std::int64_t to_reference(std::int64_t time) const { return time + offset_at(time); }
  std::int64_t offset_at(std::int64_t time) const;
  // Return a bound on the distance of to_reference(t) from rank 0's clock between the readings.
  std::int64_t error() const;

 private:
  ClockReading before_, after_;
  double drift_ = 0;  // nanoseconds of offset per nanosecond
};

// ---
// The messages that measure the clocks.

// Measure the rank's clock; every rank calls it. Return nothing on rank 0, whose clock is read.
std::optional<ClockReading> exchange_clocks(int rank, int world_size, ProcessWait& wait);

// ---

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

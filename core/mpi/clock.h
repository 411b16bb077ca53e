// One clock for all ranks. Every host has its own monotonic clock: they begin at different times and
// run at rates that differ by some millionths. Rank 0's is the run's; the others learn by messages,
// before and after the run, how far they are from it, and their times are shifted accordingly.
//
// A rank notes its time, asks rank 0 for its, and notes its own again when the answer comes. Rank 0
// answered somewhere in between, so its clock minus the middle of the two is the offset, wrong by at
// most half the round trip, whichever way took longer. The shortest of many round trips counts. In
// between the offset is taken to grow evenly.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/mpi/process_wait.h"

namespace ringscope {

// One question and its answer, in nanoseconds: asked and answered by the rank's clock, `reference`
// by rank 0's.
struct RoundTrip {
  std::int64_t asked = 0;
  std::int64_t reference = 0;
  std::int64_t answered = 0;
};

// At `at`, by the rank's clock, rank 0's clock showed `at` + `offset`, give or take `error`.
struct ClockReading {
  std::int64_t at = 0;
  std::int64_t offset = 0;
  std::int64_t error = 0;
};

// From the shortest round trip. `trips` is not empty.
ClockReading read_clock(const std::vector<RoundTrip>& trips);

// From a rank's clock to rank 0's.
class ClockMap {
 public:
  // Without a reading after the run (it failed), the rates may differ by what clocks usually do.
  ClockMap(const ClockReading& before, const std::optional<ClockReading>& after);

  // By rank 0's clock, of a time by the rank's. Never changes the order of two times.
  std::int64_t to_reference(std::int64_t time) const { return time + offset_at(time); }
  std::int64_t offset_at(std::int64_t time) const;
  // A bound on the distance of to_reference(t) from rank 0's clock, for t from the first reading to
  // `until` (with a second reading: to that).
  std::int64_t error(std::int64_t until) const;

 private:
  ClockReading before_;
  std::optional<ClockReading> after_;
  double drift_ = 0;  // nanoseconds of offset a nanosecond
};

// ---
// The messages that measure it.

// Called by every rank. Nothing on rank 0, whose clock the others read.
std::optional<ClockReading> exchange_clocks(int rank, int world_size, ProcessWait& wait);

}  // namespace ringscope

// Converts event times to the host's monotonic clock. Events only know how far apart they are, so
// one event is tied to the host's clock before a run and all others are measured from it.
#pragma once

#include <cstdint>

#include "cuda/base/stream.h"

namespace ringscope::cuda {

// Thread-safe.
class DeviceClock {
 public:
  // Tie an event to the clock, which takes a few round trips to the device. Throws CudaError.
  DeviceClock();

  // Return the time of a timed event that has happened. The order of events is preserved.
  std::int64_t monotonic_ns(const Event& event) const;

  // Return how far monotonic_ns may be off for events until now. It adds the round trips'
  // uncertainty, the drift of the clocks since, and the last digit of the distance (a float).
  std::int64_t error_ns() const;

 private:
  // An event that happened within half_width_ns of host_ns.
  struct Anchor {
    Event event{EventKind::timed};
    std::int64_t host_ns = 0;
    std::int64_t half_width_ns = 0;
  };
  Anchor take_anchor() const;

  Stream stream_;
  Anchor anchor_;
};

}  // namespace ringscope::cuda

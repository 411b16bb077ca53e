// When events happened, on the host's monotonic clock. Events only know how far apart they are, so
// one event is tied to the host's clock before a run, and everything is measured from it.
#pragma once

#include <cstdint>

#include "cuda/base/stream.h"

namespace ringscope::cuda {

// Thread-safe.
class DeviceClock {
 public:
  // Takes a few round trips to the device. Throws CudaError.
  DeviceClock();

  // Of a timed event that has happened. Events in the order in which they happened keep it.
  std::int64_t monotonic_ns(const Event& event) const;

  // How far monotonic_ns may be off, for events until now: what the round trips leave open, how far
  // the two clocks went apart since, and the last digit of the distance (a float).
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

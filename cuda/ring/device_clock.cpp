#include "cuda/ring/device_clock.h"

#include <cmath>
#include <cstdlib>
#include <limits>

#include "core/trace/recorder.h"

namespace ringscope::cuda {

DeviceClock::DeviceClock() : anchor_(take_anchor()) {}

DeviceClock::Anchor DeviceClock::take_anchor() const {
  // Keep the tightest of a few anchors, because the first ones also wake the device up.
  Anchor best;
  best.half_width_ns = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < 8; ++i) {
    Anchor anchor;
    const std::int64_t before = ringscope::monotonic_ns();
    anchor.event.record(stream_.get());
    anchor.event.wait();
    const std::int64_t after = ringscope::monotonic_ns();
    anchor.host_ns = before + (after - before) / 2;
    anchor.half_width_ns = (after - before + 1) / 2;
    if (anchor.half_width_ns < best.half_width_ns) best = std::move(anchor);
  }
  return best;
}

std::int64_t DeviceClock::monotonic_ns(const Event& event) const {
  return anchor_.host_ns + std::llround(static_cast<double>(event.ms_since(anchor_.event)) * 1e6);
}

std::int64_t DeviceClock::error_ns() const {
  const Anchor now = take_anchor();
  const std::int64_t apart = std::abs(monotonic_ns(now.event) - now.host_ns);
  const double distance_ns = static_cast<double>(now.host_ns - anchor_.host_ns);
  constexpr double kResolutionNs = 500;  // resolution of events
  return anchor_.half_width_ns + now.half_width_ns + apart +
         std::llround(kResolutionNs + distance_ns * std::numeric_limits<float>::epsilon());
}

}  // namespace ringscope::cuda

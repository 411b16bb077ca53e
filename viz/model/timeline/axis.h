// The timeline's x axis, in nanoseconds or in ring steps. On the step axis every rank begins step s
// at position s, so that slices line up by (rank, step) and not by the clock. Within a step all
// ranks have one scale: the rank that takes longest fills [s, s + 1), and what the others leave
// empty is what they had to spare. A rank's step begins where it begins to wait for the step's
// block, or to compute when it need not wait; its first with the trace; its last ends with its last
// slice, and one that a failed run did not get beyond ends with the run. The backward pass's steps
// follow the forward's. Of a training step only the ring has steps: what a rank computes before,
// between and after its passes takes no room on the step axis.
#pragma once

#include <cstdint>
#include <vector>

#include "viz/model/trace/trace.h"

namespace ringscope::viz {

enum class AxisMode : std::uint8_t { time, steps };

class Axis {
 public:
  Axis() = default;
  explicit Axis(const Trace& trace);

  // Position of time `ns` of `rank` on the axis. In time mode: ns after trace.begin_ns, whatever
  // the rank. Monotone. time_at undoes it; where a rank's step leaves its end empty, time_at stays
  // at the step's last nanosecond.
  double position(AxisMode mode, int rank, std::int64_t ns) const;
  std::int64_t time_at(AxisMode mode, int rank, double position) const;

  // The axis' end; it begins at 0. In step mode 0 for a trace without steps.
  double length(AxisMode mode) const;

  // Where the step that holds time `ns` stands on the step axis: its index in [0, steps).
  int step_at(int rank, std::int64_t ns) const;
  // When `rank` begins step `step` of the axis, in nanoseconds; step in [0, steps], the last of
  // them its end.
  std::int64_t step_begin_ns(int rank, int step) const;
  // Of the rank that takes longest for it; at least 1.
  std::int64_t step_length_ns(int step) const;
  int steps() const { return steps_; }
  int forward_steps() const { return forward_steps_; }

 private:
  std::int64_t begin_ns_ = 0, end_ns_ = 0;
  int steps_ = 0, forward_steps_ = 0;
  std::vector<std::int64_t> boundaries_;  // [rank][steps + 1]
  std::vector<std::int64_t> lengths_;     // [step]
};

}  // namespace ringscope::viz

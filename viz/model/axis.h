// The timeline's x axis, in nanoseconds or in ring steps. On the step axis every rank's own steps
// are stretched to equal length: step s of every rank covers [s, s + 1), so that slices line up by
// (rank, step) and not by the clock. A rank's step begins where it begins to wait for the step's
// block, or to compute when it need not wait. The backward pass's steps follow the forward's.
#pragma once

#include <cstdint>
#include <vector>

#include "viz/model/trace.h"

namespace ringscope::viz {

enum class AxisMode : std::uint8_t { time, steps };

class Axis {
 public:
  Axis() = default;
  explicit Axis(const Trace& trace);

  // Position of time `ns` of `rank` on the axis. In time mode: ns after trace.begin_ns, whatever
  // the rank. Monotone; exact inverse of time_at up to rounding.
  double position(AxisMode mode, int rank, std::int64_t ns) const;
  std::int64_t time_at(AxisMode mode, int rank, double position) const;

  // The axis' end; it begins at 0. In step mode 0 for a trace without steps.
  double length(AxisMode mode) const;

  // Where the step that holds time `ns` stands on the step axis: its index in [0, steps).
  int step_at(int rank, std::int64_t ns) const;
  // When `rank` begins step `step` of the axis, in nanoseconds; step in [0, steps].
  std::int64_t step_begin_ns(int rank, int step) const;
  int steps() const { return steps_; }
  int forward_steps() const { return forward_steps_; }

 private:
  std::int64_t begin_ns_ = 0, end_ns_ = 0;
  int steps_ = 0, forward_steps_ = 0;
  std::vector<std::int64_t> boundaries_;  // [rank][steps + 1]
};

}  // namespace ringscope::viz

// Defines the timeline's x axis, in nanoseconds or in ring steps. On the step axis every rank
// begins step s at position s, so slices line up by (rank, step) and not by the clock. Within a
// step all slices of all ranks share one scale: the slowest rank fills [s, s + 1), and what the others
// leave empty is their slack, which takes no time. A slice that reaches into the next step goes on there.
// What a rank does after its last work in a pass is cut off where the column ends. A rank's step begins when it begins to wait for the step's block, or to
// compute if it need not wait. Its first step begins with the trace and its last ends with its last
// slice; a step that a failed run did not get beyond ends with the run. A rank that has nothing left to
// attend in a pass stays in the last step that it attended. Backward steps follow the forward ones. In a training step only the ring has steps: what a rank computes before, between
// and after its passes takes no room on the step axis.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "viz/data/trace/trace.h"

namespace ringscope::viz {

enum class AxisMode : std::uint8_t { time, steps };

// Return the step of the axis that ring step `slice.step` of its pass is; -1 for a slice without one.
inline int axis_step(const TraceEvent& slice, int forward_steps) {
  if (slice.step < 0) return -1;
  return slice.step + (slice.pass == Pass::backward ? forward_steps : 0);
}

class Axis {
 public:
  Axis() = default;
  explicit Axis(const Trace& trace);

  // Return the position of time `ns` of `rank` on the axis, which is monotone. In time mode it is
  // ns after trace.begin_ns for every rank. time_at is the inverse; where a rank's step leaves its
  // end empty, time_at stays at the step's last nanosecond.
  double position(AxisMode mode, int rank, std::int64_t ns) const;
  // Return where a slice of `rank` ends, which is in its own step even if the next one begins then.
  double end_position(AxisMode mode, int rank, const TraceEvent& slice) const;
  // Return where it lies: from begin to end, or on the step axis from where to where in each step that it
  // reaches into. There is at least one place.
  std::vector<std::pair<double, double>> places(AxisMode mode, int rank,
                                                const TraceEvent& slice) const;
  std::int64_t time_at(AxisMode mode, int rank, double position) const;

  // Return the axis' end; it begins at 0. In step mode it is 0 for a trace without steps.
  double length(AxisMode mode) const;

  // Return the index in [0, steps) of the step that holds time `ns` of `rank`: the first one when the
  // trace begins, and none after the last that it attends.
  int step_at(int rank, std::int64_t ns) const;
  // Return the step that `rank` is at where the playhead stands: on the step axis that of all ranks.
  int step_shown(AxisMode mode, int rank, double position) const;
  // Return when `rank` begins step `step` of the axis, in nanoseconds. `step` is in [0, steps]; the
  // last value gives the end.
  std::int64_t step_begin_ns(int rank, int step) const;
  // Return the step's time on the rank that takes longest for it; at least 1.
  std::int64_t step_length_ns(int step) const;
  // Return where on the axis `rank` begins a step, or, if it is -1, the first rank that works at it.
  double step_position(AxisMode mode, int rank, int step) const;
  int steps() const { return steps_; }
  int forward_steps() const { return forward_steps_; }
  bool is_backward(int step) const { return step >= forward_steps_ && forward_steps_ < steps_; }
  // Return the ring step, within its pass, that step `step` of the axis is.
  int ring_step(int step) const { return step - (is_backward(step) ? forward_steps_ : 0); }

 private:
  // Find out when the steps of `rank` begin.
  void add_rank(const Trace& trace, int rank);

  std::int64_t begin_ns_ = 0, end_ns_ = 0;
  int steps_ = 0, forward_steps_ = 0;
  std::vector<std::int64_t> boundaries_;    // [rank][steps + 1]
  std::vector<std::int64_t> first_begins_;  // [step]: of the ranks that work at it
  std::vector<std::int64_t> lengths_;       // [step]
  std::vector<int> last_steps_;             // [rank]: the last that it attends
};

}  // namespace ringscope::viz

// Moves the playhead. Its position is on the axis (nanoseconds or ring steps), so in steps mode
// every rank, and every trace of a comparison, is shown at the same point of the same step,
// whatever its clock said.
#pragma once

#include "viz/model/timeline/axis.h"

namespace ringscope::viz {

class Playback {
 public:
  double position() const { return position_; }
  bool playing() const { return playing_; }
  double speed() const { return speed_; }

  // Play or pause. `length` is the axis' end; playing from the end starts over.
  void toggle(double length);
  void pause() { playing_ = false; }
  void seek(double position, double length);
  // Double or halve the speed, which stays between 1/64 and 64.
  void faster();
  void slower();
  // Move by `seconds` of real time. At speed 1 the whole axis takes about ten seconds in time mode,
  // and a step takes one second in steps mode. Stops at the end.
  void advance(double seconds, AxisMode mode, double length);

 private:
  double position_ = 0;
  double speed_ = 1;
  bool playing_ = false;
};

// Return the beginning of the next (previous) step after (before) `position`: the next whole number
// in steps mode, and the next moment at which any rank begins a step in time mode.
double next_step(const Axis& axis, AxisMode mode, int ranks, double position);
double previous_step(const Axis& axis, AxisMode mode, int ranks, double position);

}  // namespace ringscope::viz

// The playhead and how it moves. Its position is on the axis (nanoseconds or ring steps), so that
// in steps mode every rank, and every trace of a comparison, is shown at the same point of the same
// step, whatever its clock said.
#pragma once

#include "viz/model/timeline/axis.h"

namespace ringscope::viz {

class Playback {
 public:
  double position() const { return position_; }
  bool playing() const { return playing_; }
  double speed() const { return speed_; }

  // `length`: the axis' end. Playing from the end starts over.
  void toggle(double length);
  void pause() { playing_ = false; }
  void seek(double position, double length);
  // Doubles or halves; between 1/64 and 64.
  void faster();
  void slower();
  // Moves by `seconds` of people's time. At speed 1 the whole axis takes about ten seconds in time
  // mode; in steps mode a step takes one second. Stops at the end.
  void advance(double seconds, AxisMode mode, double length);

 private:
  double position_ = 0;
  double speed_ = 1;
  bool playing_ = false;
};

// The beginning of the next (previous) step after `position`: in steps mode the next whole number;
// in time mode the next moment at which any rank begins a step.
double next_step(const Axis& axis, AxisMode mode, int ranks, double position);
double previous_step(const Axis& axis, AxisMode mode, int ranks, double position);

}  // namespace ringscope::viz

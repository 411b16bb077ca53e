#include "viz/model/session/playback.h"

#include <algorithm>
#include <cmath>

namespace ringscope::viz {
namespace {

constexpr double kSlowest = 1.0 / 64, kFastest = 64;
constexpr double kSecondsForAll = 10;

// Return the distance below which two moments are one, so that a playhead put on a step's beginning
// stands on it even if its position was rounded.
double slack(AxisMode mode) { return mode == AxisMode::time ? 0.5 : 1e-9; }

}  // namespace

void Playback::toggle(double length) {
  if (!playing_ && position_ >= length) position_ = 0;
  playing_ = !playing_ && length > 0;
}

void Playback::seek(double position, double length) {
  position_ = std::isnan(position) ? 0 : std::clamp(position, 0.0, std::max(length, 0.0));
}

void Playback::faster() { speed_ = std::min(speed_ * 2, kFastest); }
void Playback::slower() { speed_ = std::max(speed_ / 2, kSlowest); }

void Playback::advance(double seconds, AxisMode mode, double length) {
  if (!playing_ || !(seconds > 0)) return;
  const double rate = mode == AxisMode::time ? length / kSecondsForAll : 1;
  position_ += seconds * speed_ * rate;
  if (position_ < length) return;
  position_ = length;
  playing_ = false;
}

double next_step(const Axis& axis, AxisMode mode, int ranks, double position) {
  const double end = axis.length(mode);
  if (mode == AxisMode::steps) return std::min(end, std::floor(position + slack(mode)) + 1);
  double next = end;
  for (int rank = 0; rank < ranks; ++rank)
    for (int step = 0; step < axis.steps(); ++step) {
      const double begin = axis.position(mode, rank, axis.step_begin_ns(rank, step));
      if (begin > position + slack(mode)) {
        next = std::min(next, begin);
        break;  // later steps begin later
      }
    }
  return next;
}

double previous_step(const Axis& axis, AxisMode mode, int ranks, double position) {
  if (mode == AxisMode::steps) return std::max(0.0, std::ceil(position - slack(mode)) - 1);
  double previous = 0;
  for (int rank = 0; rank < ranks; ++rank)
    for (int step = axis.steps() - 1; step >= 0; --step) {
      const double begin = axis.position(mode, rank, axis.step_begin_ns(rank, step));
      if (begin < position - slack(mode)) {
        previous = std::max(previous, begin);
        break;  // earlier steps begin earlier
      }
    }
  return previous;
}

}  // namespace ringscope::viz

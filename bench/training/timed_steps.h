// Training steps, timed: as a whole, and what of that is inside attention.
#pragma once

#include <string>
#include <vector>

#include "core/train/training_settings.h"

namespace ringscope {

struct TimedStep {
  double wall_s = 0;
  double attention_s = 0;      // of the mean rank: both passes of the ring, waits included
  double cpu_s = 0;            // processor time of all ranks, their communicators' threads included
  double attention_cpu_s = 0;  // of that, what attention computes
};

// `steps` of them, after one that is not timed, on threads.
std::vector<TimedStep> timed_steps(const TrainingSettings& settings, const Deal& deal,
                                   const std::string& text, int steps);

}  // namespace ringscope

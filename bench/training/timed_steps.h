// Times training steps: each step as a whole, and the part of it inside attention.
#pragma once

#include <string>
#include <vector>

#include "core/train/training_settings.h"

namespace ringscope {

struct TimedStep {
  double wall_s = 0;
  double attention_s = 0;      // mean over ranks: both passes of the ring, waits included
  double cpu_s = 0;            // processor time of all ranks, their communicators' threads included
  double attention_cpu_s = 0;  // the part of cpu_s that attention computes
};

// Time `steps` steps on threads, after one that is not timed.
std::vector<TimedStep> timed_steps(const TrainingSettings& settings, const Deal& deal,
                                   const std::string& text, int steps);

}  // namespace ringscope

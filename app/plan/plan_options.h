// The options of `ringscope plan`: a problem, a machine, and how much to print.
#pragma once

#include <optional>
#include <string>

#include "app/command_line/problem_options.h"
#include "core/cost/model_step.h"

namespace ringscope {

struct PlanOptions {
  HardwareOptions hardware;
  double memory_fraction = 0.9;  // of a device's memory that attention may take

  Problem job;  // partition and scheme: those of the answer, unless given
  std::optional<PartitionKind> partition;
  bool searched = false;  // search for a ring's partition instead of naming one
  std::optional<Scheme> scheme;
  std::optional<ModelSizes> model;  // around the attention

  bool explain = false;
  bool json = false;
};

// The flags as given, before it is known that they fit together.
struct PlanRequest {
  PlanOptions options;
  ProblemRequest problem;
  ModelSizes model;  // 0: not given
};

// Add the flags, which write to `request` when the command line is read.
void add_plan(CommandFlags& flags, PlanRequest& request);

// Throw InputError naming the flag, the value and what would be accepted, also for an impossible
// shape or mask.
PlanOptions checked_plan(const PlanRequest& request);

}  // namespace ringscope

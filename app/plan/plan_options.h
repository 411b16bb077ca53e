// What `ringscope plan` was asked: a problem, a machine, and how much to say.
#pragma once

#include <optional>
#include <string>

#include "app/command_line/problem_options.h"
#include "core/cost/model_step.h"

namespace ringscope {

struct PlanOptions {
  HardwareOptions hardware;
  double memory_fraction = 0.9;  // of a device's memory that attention may take

  Job job;  // partition and scheme: those of the answer, unless given
  std::optional<PartitionKind> partition;
  bool searched = false;  // in place of a partition: one found by search, on a ring
  std::optional<JobScheme> scheme;
  std::optional<ModelSizes> model;  // around the attention

  bool explain = false;
  bool json = false;
};

// What the flags say, before it is known to fit together.
struct PlanRequest {
  PlanOptions options;
  ProblemRequest problem;
  ModelSizes model;  // 0: not given
};

// The flags, which write to `request` when the command line is read.
void add_plan(CommandFlags& flags, PlanRequest& request);

// Throws InputError naming the flag, the value and what would be accepted; also for a shape or mask
// that can't be.
PlanOptions checked_plan(const PlanRequest& request);

}  // namespace ringscope

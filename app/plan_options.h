// What `ringscope plan` was asked: a problem, a machine, and how much to say.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/cost/job.h"

namespace ringscope {

struct PlanOptions {
  std::string help;  // asked for: to be printed, and nothing else done

  // The machine: both names or files, or measure.
  std::optional<std::string> gpu, link;
  bool measure = false;
  double memory_fraction = 0.9;  // of a device's memory that attention may take

  Job job;  // partition and scheme: those of the answer, unless given
  std::optional<PartitionKind> partition;
  std::optional<JobScheme> scheme;

  bool explain = false;
  bool json = false;
};

// Reads `arguments`, the first of which is "plan". Throws InputError naming the flag, the value and
// what would be accepted; also for a shape or mask that can't be.
PlanOptions parse_plan(const std::vector<std::string>& arguments);

}  // namespace ringscope

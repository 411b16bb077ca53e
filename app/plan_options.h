// What `ringscope plan` was asked: a problem, a machine, and how much to say.
#pragma once

#include <optional>
#include <string>

#include "core/cost/job.h"

namespace ringscope {

struct PlanOptions {
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

class CommandFlags;

// What the flags say, before it is known to fit together. Sizes that are 0 were not given.
struct PlanRequest {
  PlanOptions options;
  // Those of a 7B model's attention, for whoever does not say.
  Index batch = 1, heads = 32, heads_kv = 0, seqlen = 0, head_dim = 128;
  Index world_size = 0;
};

// The flags, which write to `request` when the command line is read.
void add_plan(CommandFlags& flags, PlanRequest& request);

// Throws InputError naming the flag, the value and what would be accepted; also for a shape or mask
// that can't be.
PlanOptions checked_plan(const PlanRequest& request);

}  // namespace ringscope

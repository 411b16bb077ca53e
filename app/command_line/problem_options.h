// The flags that `plan` and `simulate` share: a problem, and the hardware that it is put to.
#pragma once

#include <optional>
#include <string>

#include "core/cost/job.h"

namespace ringscope {

class CommandFlags;

// Sizes as the flags say them, before they are known to fit together; 0: not given.
struct ProblemRequest {
  // Those of a 7B model's attention, for whoever does not say.
  Index batch = 1, heads = 32, heads_kv = 0, seqlen = 0, head_dim = 128;
  Index world_size = 0;
};

// Both names or files, or this machine, measured.
struct HardwareOptions {
  std::optional<std::string> gpu, link;
  bool measure = false;
};

// All but partition and scheme. Sizes go to `request`, the rest to `job`; both must outlive the
// reading of the command line.
void add_problem(CommandFlags& flags, ProblemRequest& request, Job& job);
void add_hardware(CommandFlags& flags, HardwareOptions& hardware);

// Puts the sizes into `job`. Throws InputError for one that `command` lacks, and for a shape or a
// mask that can't be.
void set_problem(const std::string& command, const ProblemRequest& request, Job& job);

// Throws InputError unless it is gpu and link, or measure.
void check_hardware(const std::string& command, const HardwareOptions& hardware);

}  // namespace ringscope

// The flags that `plan` and `simulate` share: a problem, and the hardware that computes it.
#pragma once

#include <optional>
#include <string>

#include "core/ring/problem.h"

namespace ringscope {

class CommandFlags;

// Sizes as the flags give them, before it is known that they fit together; 0: not given.
struct ProblemRequest {
  // The defaults are those of a 7B model's attention.
  Index batch = 1, heads = 32, heads_kv = 0, seqlen = 0, head_dim = 128;
  Index world_size = 0;
};

// GPU and link, each a name or a file; or a measurement of this machine.
struct HardwareOptions {
  std::optional<std::string> gpu, link;
  bool measure = false;
};

// Add the flags of a problem, except partition and scheme. Sizes go to `request`, the rest to
// `job`; both must outlive the reading of the command line.
void add_problem(CommandFlags& flags, ProblemRequest& request, Problem& job);
void add_hardware(CommandFlags& flags, HardwareOptions& hardware);

// Put the sizes into `job`. Throw InputError for a size that `command` lacks, and for an impossible
// shape or mask.
void set_problem(const std::string& command, const ProblemRequest& request, Problem& job);

// Throw InputError unless exactly one was given: gpu and link, or measure.
void check_hardware(const std::string& command, const HardwareOptions& hardware);

}  // namespace ringscope

// What `ringscope simulate` was asked: a problem, a machine and its faults, and what to write.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/command_line/problem_options.h"
#include "core/sim/scenario.h"
#include "core/sim/sweep.h"

namespace ringscope {

struct SimulateOptions {
  HardwareOptions hardware;
  std::optional<std::string> between;   // a link by name or file
  std::optional<std::string> topology;  // a file
  // Rates, topology and links are looked up later; cores and granularity of a measured machine too.
  Scenario scenario;
  std::optional<int> cores;
  bool tiles_given = false;

  bool all_schemes = false;
  std::vector<SweptAxis> sweep;

  std::optional<std::string> trace, csv, picture;
  std::optional<int> trace_ranks;  // none: as many as fit well into a file
  bool json = false;
};

class CommandFlags;

// What the flags say, before it is known to fit together.
struct SimulateRequest {
  SimulateOptions options;
  ProblemRequest problem;
  std::optional<Index> nodes, nics;
  std::optional<Placement> placement;
  std::optional<std::string> kv_buffers;
  std::vector<std::string> sweep;
};

// The flags, which write to `request` when the command line is read.
void add_simulate(CommandFlags& flags, SimulateRequest& request);

// After the reading. Throws InputError naming the flag, the value and what would be accepted.
SimulateOptions checked_simulate(const SimulateRequest& request, const CommandFlags& flags);

}  // namespace ringscope

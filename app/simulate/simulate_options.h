// The options of `ringscope simulate`: a problem, a machine and its faults, and what to write.
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
  // Rates, topology and links are filled in later, as are cores and granularity if measured.
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

// The flags as given, before it is known that they fit together.
struct SimulateRequest {
  SimulateOptions options;
  ProblemRequest problem;
  std::optional<Index> nodes, nics;
  std::optional<Placement> placement;
  std::optional<std::string> kv_buffers;
  std::vector<std::string> sweep;
};

// Add the flags, which write to `request` when the command line is read.
void add_simulate(CommandFlags& flags, SimulateRequest& request);

// Call after reading. Throw InputError naming the flag, the value and what would be accepted.
SimulateOptions checked_simulate(const SimulateRequest& request, const CommandFlags& flags);

}  // namespace ringscope

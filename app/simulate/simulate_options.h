// The options of `ringscope simulate`: a problem, a machine and its faults, and what to write.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/command_line/option_groups.h"
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

  std::optional<std::string> trace, csv, picture, theme, write_partition;
  std::optional<int> trace_ranks;  // none: as many as fit well into a file
  bool json = false;
  std::string command;  // the words of the command line, for the recording
};

}  // namespace ringscope

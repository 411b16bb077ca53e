// What `ringscope simulate` is asked for, its answer, and the functions that turn that into text or
// JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/command_line/option_groups.h"
#include "core/tools/cost/hardware.h"
#include "core/tools/sim/scenario.h"
#include "core/tools/sim/sweep.h"

namespace ringscope {

struct SimulateOptions {
  HardwareOptions hardware;
  std::optional<int> nodes;
  std::optional<std::string> between;  // a link by name or file
  // Rates and links are filled in later, as are cores and granularity if measured and not given.
  Scenario scenario;
  bool cores_given = false, tiles_given = false;

  std::vector<SweptAxis> sweep;

  std::optional<std::string> trace, csv, write_partition;
  std::optional<int> trace_ranks;  // none: as many as fit well into a file
  bool json = false;
};

// The names of the ranks' hardware and links, and the memory of a rank.
struct SimulatedHardware {
  std::string gpu, link;
  double memory_bytes = 0;
};

struct Simulated {
  Scenario scenario;
  SimulatedHardware hardware;
  std::optional<Work> work;
  Simulation simulation;
  Figures figures;
  int recorded_ranks = 0;    // in --trace
  std::string largest_loss;  // of --trace; "" if there is none
  double simulated_in_s = 0;
};

// Return text for people; each ends with a newline.
std::string simulated_text(const Simulated& simulated);
std::string sweep_text(const SweepTable& table, const SimulatedHardware& hardware);

// Return one JSON object and a newline.
std::string simulated_json(const Simulated& simulated);
std::string sweep_json(const SweepTable& table, const SimulatedHardware& hardware);

}  // namespace ringscope

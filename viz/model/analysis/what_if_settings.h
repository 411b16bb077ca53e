// Defines what can be changed about a recorded run before it is predicted. Rates are factors of
// what the recording tells (run_rates.h); the rest is named as on the command line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/problem/partition.h"
#include "viz/model/analysis/run_rates.h"

namespace ringscope::viz {

// A Way is how blocks get around, and how ranks keep together.
enum class Way : std::uint8_t { buffers, in_step, allgather, ulysses };

struct WhatIfSettings {
  double bandwidth = 1, latency = 1, flops = 1;  // factors of the recorded run's
  int world_size = 1;
  PartitionKind partition = PartitionKind::contiguous;
  std::string mask;
  Way way = Way::buffers;
  int kv_buffers = 2;
  int cores = 0;        // shared by the ranks; 0: each has its own
  double jitter = 0;    // see core/sim/machine/machine.h
  int slow_rank = 0;    // this rank takes
  double slowdown = 1;  // this many times as long

  bool operator==(const WhatIfSettings&) const = default;
};

// Bounds are what sliders reach.
struct Bounds {
  double least, most;
};
inline constexpr Bounds kFactors{1.0 / 64, 64}, kJitters{0, 2}, kSlowdowns{1, 16};
inline constexpr int kMostRanks = 1024;  // `ringscope simulate` goes beyond
inline constexpr int kMostBuffers = 16;
int most_ranks(const RunRates& rates);  // kMostRanks, or as many as there were if more

// Return the settings that predict the recorded run.
WhatIfSettings settings_of(const RunRates& rates);

// Return the nearest settings within bounds, whatever was asked for; NaN becomes the least.
WhatIfSettings within_bounds(WhatIfSettings settings, const RunRates& rates);

// Change `settings` as in "bandwidth=2,world-size=8,partition=zigzag": bandwidth, latency and flops
// are factors of the recorded run's, and all else is as for `ringscope simulate` (cores=own: each
// rank has its own). Commas within a mask stay. Throws InputError that names the setting, its value
// and what would be accepted.
void apply(WhatIfSettings& settings, const RunRates& rates, std::string_view text);

// Check the text as far as possible without a recording. Throws for what no recording would accept.
void check_settings(std::string_view text);

// Return the run that the settings describe. Throws InputError for an invalid mask.
Scenario scenario_of(const RunRates& rates, const WhatIfSettings& settings);

}  // namespace ringscope::viz

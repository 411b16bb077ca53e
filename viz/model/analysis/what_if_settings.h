// What can be changed about a recorded run before it is foretold: its machine as factors of what the
// recording tells (run_rates.h), the rest as it is called on the command line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/problem/partition.h"
#include "viz/model/analysis/run_rates.h"

namespace ringscope::viz {

// How blocks get around, and how ranks keep together.
enum class Way : std::uint8_t { buffers, in_step, allgather, ulysses };

struct WhatIfSettings {
  double bandwidth = 1, latency = 1, flops = 1;  // times those of the recorded run
  int world_size = 1;
  PartitionKind partition = PartitionKind::contiguous;
  std::string mask;
  Way way = Way::buffers;
  int kv_buffers = 2;
  int cores = 0;        // that ranks share; 0: each has its own
  double jitter = 0;    // see core/sim/machine/machine.h
  int slow_rank = 0;    // takes
  double slowdown = 1;  // times as long

  bool operator==(const WhatIfSettings&) const = default;
};

// What sliders reach.
struct Bounds {
  double least, most;
};
inline constexpr Bounds kFactors{1.0 / 64, 64}, kJitters{0, 2}, kSlowdowns{1, 16};
inline constexpr int kMostRanks = 1024;  // beyond them `ringscope simulate` goes on
inline constexpr int kMostBuffers = 16;
int most_ranks(const RunRates& rates);  // kMostRanks, or as many as there were

// Those that foretell the recorded run.
WhatIfSettings settings_of(const RunRates& rates);

// The nearest that there is, whatever was asked for; NaN becomes the least.
WhatIfSettings within_bounds(WhatIfSettings settings, const RunRates& rates);

// Changes `settings` as "bandwidth=2,world-size=8,partition=zigzag" says: factors of the recorded
// run's bandwidth, latency and flops, all else as `ringscope simulate` is told it (cores=own: each
// rank has its own). Commas within a mask stay. Throws InputError that names the setting, its value
// and what would be accepted.
void apply(WhatIfSettings& settings, const RunRates& rates, std::string_view text);

// The same, as far as it goes without a recording: throws for what no recording would accept.
void check_settings(std::string_view text);

// The run that the settings describe. Throws InputError for a mask that is none.
Scenario scenario_of(const RunRates& rates, const WhatIfSettings& settings);

}  // namespace ringscope::viz

#include "viz/model/analysis/what_if_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"

namespace ringscope::viz {
namespace {

constexpr std::string_view kSettingNames[] = {"bandwidth", "latency", "flops",    "world-size",
                                              "partition", "mask",    "scheme",   "kv-buffers",
                                              "cores",     "jitter",  "straggler"};

[[noreturn]] void refuse(std::string_view name, std::string_view value,
                         const std::string& accepted) {
  throw InputError(fmt::format("what-if {}: '{}' given; accepted: {}", name, value, accepted));
}

double number(std::string_view name, std::string_view text, const Bounds& bounds) {
  const auto value = parse_number<double>(text);
  if (value && *value >= bounds.least && *value <= bounds.most) return *value;
  refuse(name, text, fmt::format("a number from {:.4g} to {:.4g}", bounds.least, bounds.most));
}

int integer(std::string_view name, std::string_view text, int least, int most) {
  const auto value = parse_number<int>(text);
  if (value && *value >= least && *value <= most) return *value;
  refuse(name, text, fmt::format("an integer from {} to {}", least, most));
}

// Read the scheme. A ring keeps the pace that it had.
void read_scheme(WhatIfSettings& settings, std::string_view text) {
  if (text == "allgather") {
    settings.way = Way::allgather;
  } else if (text == "ulysses") {
    settings.way = Way::ulysses;
  } else if (text != "ring") {
    refuse("scheme", text, "ring, allgather, ulysses");
  } else if (settings.way != Way::in_step) {
    settings.way = Way::buffers;
  }
}

void read_buffers(WhatIfSettings& settings, std::string_view text) {
  settings.way = text == "in-step" ? Way::in_step : Way::buffers;
  if (settings.way == Way::buffers)
    settings.kv_buffers = integer("kv-buffers", text, 2, kMostBuffers);
}

// Read "RANK:SPEED".
void read_straggler(WhatIfSettings& settings, std::string_view value, int ranks) {
  const std::size_t colon = value.find(':');
  if (colon == std::string_view::npos) refuse("straggler", value, "RANK:SPEED");
  settings.slow_rank = integer("straggler", value.substr(0, colon), 0, ranks - 1);
  settings.slowdown = 1 / number("straggler", value.substr(colon + 1), {1 / kSlowdowns.most, 1});
}

void read(WhatIfSettings& settings, int ranks, std::string_view name, std::string_view value) {
  const auto factor = [&] { return number(name, value, kFactors); };
  if (name == "bandwidth") {
    settings.bandwidth = factor();
  } else if (name == "latency") {
    settings.latency = factor();
  } else if (name == "flops") {
    settings.flops = factor();
  } else if (name == "world-size") {
    settings.world_size = integer(name, value, 1, ranks);
  } else if (name == "partition") {
    settings.partition = parse_partition(value);
  } else if (name == "mask") {
    settings.mask = MaskSpec::recorded(value, {}).name();  // opens no file
  } else if (name == "scheme") {
    read_scheme(settings, value);
  } else if (name == "kv-buffers") {
    read_buffers(settings, value);
  } else if (name == "cores") {
    settings.cores = value == "own" ? 0 : integer(name, value, 1, ranks);
  } else if (name == "jitter") {
    settings.jitter = number(name, value, kJitters);
  } else if (name == "straggler") {
    read_straggler(settings, value, ranks);
  } else {
    throw InputError(fmt::format("what-if: '{}' given; accepted: SETTING=VALUE,... of {}", name,
                                 fmt::join(kSettingNames, ", ")));
  }
}

// Split the settings at commas. A word without `=` continues the value before it, because lengths
// of documents are separated by commas as well.
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    if (parts.empty() || part.find('=') != std::string_view::npos)
      parts.emplace_back(part);
    else
      parts.back() += "," + std::string(part);
    at = end + 1;
  }
  return parts;
}

void read_all(WhatIfSettings& settings, int ranks, std::string_view text) {
  if (text.empty()) return;
  for (const std::string& part : parts_of(text)) {
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string name = part.substr(0, equals);
    const std::string value = equals < part.size() ? part.substr(equals + 1) : "";
    read(settings, ranks, name, value);
  }
}

double clamped(double value, const Bounds& bounds) {
  return value >= bounds.least ? std::min(value, bounds.most) : bounds.least;
}

}  // namespace

int most_ranks(const RunRates& rates) {
  return std::max(kMostRanks, rates.scenario.job.world_size);
}

WhatIfSettings settings_of(const RunRates& rates) {
  const Scenario& recorded = rates.scenario;
  WhatIfSettings settings;
  settings.world_size = recorded.job.world_size;
  settings.partition = recorded.job.partition;
  settings.mask = recorded.job.mask.name();
  settings.kv_buffers = recorded.job.kv_buffers;
  settings.cores = recorded.cores;
  settings.slow_rank = std::max(rates.slow_rank, 0);
  settings.slowdown = rates.slowdown;
  settings.way = recorded.job.scheme == Scheme::allgather ? Way::allgather
                 : recorded.job.scheme == Scheme::ulysses ? Way::ulysses
                 : recorded.pace == Pace::in_step         ? Way::in_step
                                                          : Way::buffers;
  return settings;
}

WhatIfSettings within_bounds(WhatIfSettings s, const RunRates& rates) {
  s.bandwidth = clamped(s.bandwidth, kFactors);
  s.latency = clamped(s.latency, kFactors);
  s.flops = clamped(s.flops, kFactors);
  s.jitter = clamped(s.jitter, kJitters);
  s.slowdown = clamped(s.slowdown, {1, std::max(kSlowdowns.most, rates.slowdown)});
  s.world_size = std::clamp(s.world_size, 1, most_ranks(rates));
  s.kv_buffers = std::clamp(s.kv_buffers, 2, std::max(kMostBuffers, rates.scenario.job.kv_buffers));
  s.slow_rank = std::clamp(s.slow_rank, 0, s.world_size - 1);
  s.cores = std::clamp(s.cores, 0, most_ranks(rates));
  return s;
}

void apply(WhatIfSettings& settings, const RunRates& rates, std::string_view text) {
  read_all(settings, most_ranks(rates), text);
  if (settings.slow_rank >= settings.world_size)
    refuse("straggler", std::to_string(settings.slow_rank),
           fmt::format("a rank from 0 to {}", settings.world_size - 1));
  try {
    static_cast<void>(work_of(scenario_of(rates, settings)));
  } catch (const InputError& error) {
    throw InputError(fmt::format("what-if mask: {}", error.what()));
  }
}

void check_settings(std::string_view text) {
  WhatIfSettings settings;
  read_all(settings, std::numeric_limits<int>::max(), text);
}

Scenario scenario_of(const RunRates& rates, const WhatIfSettings& settings) {
  Scenario scenario = rates.scenario;
  scenario.rates.forward_flops *= settings.flops;
  scenario.rates.backward_flops *= settings.flops;
  scenario.rates.bytes_per_s *= settings.bandwidth;
  scenario.rates.latency_s *= settings.latency;
  Problem& job = scenario.job;
  job.world_size = settings.world_size;
  job.partition = settings.partition;
  job.mask = MaskSpec::recorded(settings.mask, {});
  job.kv_buffers = settings.kv_buffers;
  job.scheme = settings.way == Way::allgather ? Scheme::allgather
               : settings.way == Way::ulysses ? Scheme::ulysses
                                              : Scheme::ring;
  if (settings.way == Way::buffers) scenario.pace = Pace::buffers;
  if (settings.way == Way::in_step) scenario.pace = Pace::in_step;
  scenario.cores = settings.cores;
  scenario.jitter = settings.jitter;
  std::erase_if(scenario.stragglers, [&](const Straggler& s) {
    return s.rank >= settings.world_size || s.rank == settings.slow_rank;
  });
  if (settings.slowdown > 1)
    scenario.stragglers.push_back({settings.slow_rank, 1 / settings.slowdown});
  return scenario;
}

}  // namespace ringscope::viz

// Simulated runs as traces, on a machine of round figures.
#pragma once

#include <string>

#include "core/tools/sim/recording.h"
#include "core/tools/sim/scenario.h"
#include "core/trace/trace.h"

namespace ringscope::viz {

// 8 heads of 64 values over 4096 positions.
inline Scenario simulated_scenario(int ranks, PartitionKind partition = PartitionKind::contiguous,
                                   bool backward = false) {
  Scenario scenario;
  scenario.job.shape = {
      .batch = 1, .num_heads = 8, .num_heads_kv = 8, .seqlen = 4096, .head_dim = 64};
  scenario.job.mask = MaskSpec::parse("causal");
  scenario.job.partition = partition;
  scenario.job.world_size = ranks;
  scenario.job.backward = backward;
  scenario.pace = Pace::buffers;
  scenario.rates = {
      .forward_flops = 100e9, .backward_flops = 80e9, .bytes_per_s = 4e9, .latency_s = 0};
  return scenario;
}

inline Recording simulated_recording(const Scenario& scenario) {
  return record(scenario, scenario.job.world_size).recording;
}

inline Trace simulated_trace(const Scenario& scenario, const std::string& path = "simulated") {
  return to_trace(simulated_recording(scenario), path);
}

}  // namespace ringscope::viz

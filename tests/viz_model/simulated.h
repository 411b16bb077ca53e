// Simulated runs as traces, on a machine of round figures.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/sim/scenario.h"
#include "core/sim/simulate.h"
#include "viz/model/trace/ring_trace.h"

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
  const Problem& job = scenario.job;
  Recording recording;
  recording.info.backend = "sim";
  recording.info.partition = name_of(job.partition);
  recording.info.mask = job.mask.name();
  recording.info.scheme = name_of(job.scheme);
  recording.info.dtype = name_of(job.dtype);
  recording.info.shape = job.shape;
  recording.info.world_size = job.world_size;
  recording.info.kv_buffers = scenario.pace == Pace::buffers ? job.kv_buffers : 0;
  recording.events.resize(static_cast<std::size_t>(job.world_size));
  SimulationRequest request{.job = job, .pace = scenario.pace};
  request.recorded.assign(recording.events.size(), true);
  request.sink = [&recording](int rank, const TraceEvent& event) {
    recording.events[static_cast<std::size_t>(rank)].push_back(event);
  };
  simulate(request, work_of(scenario), machine_of(scenario));
  return recording;
}

inline Trace simulated_trace(const Scenario& scenario, const std::string& path = "simulated") {
  return to_trace(simulated_recording(scenario), path);
}

}  // namespace ringscope::viz

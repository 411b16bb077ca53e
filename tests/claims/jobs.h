// Jobs for the closed forms, and recorded runs to compare these with.
#pragma once

#include <vector>

#include "core/ring/problem.h"
#include "core/threads/run.h"
#include "core/tools/cost/amounts.h"
#include "core/tools/cost/time.h"
#include "core/tools/sim/simulate.h"
#include "tests/core/attention/random_problem.h"

namespace ringscope::claims {

// Short names of the partitions.
inline constexpr auto kContiguous = PartitionKind::contiguous, kStriped = PartitionKind::striped,
                      kZigzag = PartitionKind::zigzag, kFold = PartitionKind::fold;

// One batch entry, head_dim 128, bf16.
inline Problem job_of(Index heads, Index heads_kv, Index seqlen, int world_size,
                      const char* mask = "full", PartitionKind partition = kContiguous) {
  return {.shape = {1, heads, heads_kv, seqlen, 128},
          .dtype = DType::bf16,
          .mask = MaskSpec::parse(mask),
          .partition = partition,
          .world_size = world_size};
}

// Return a machine at its peak, as the sources assume.
inline Rates peak(double flops, double bytes_per_s) { return {flops, flops, bytes_per_s, 0}; }

// Return S0's account of a ring, in values: Q, O, the current KV block and the incoming one.
inline double ring_values_of_s0(const AttentionShape& shape, double rows) {
  return 2 * query_values(shape, rows) + 4 * kv_values(shape, rows);
}

// Return the bytes of naive attention's score matrix, over batch entries and heads (S0; S1, part
// two, 12.1). S3, entry 4, uses the model's width instead of the number of heads (C36).
inline double score_matrix_bytes(const AttentionShape& shape, double value_bytes) {
  const auto seqlen = static_cast<double>(shape.seqlen);
  return row_values(shape, seqlen) * seqlen * value_bytes;
}

// Simulate a ring of equal ranks with two KV buffers each.
inline Simulation simulated(const Problem& job, const Rates& rates, Granularity tile = {}) {
  Machine machine;
  machine.world_size = job.world_size;
  machine.rates = rates;
  return simulate({.job = job, .pace = Pace::buffers}, Work(job, tile), machine);
}

inline constexpr double kA100 = 312e12;  // FLOP/s, 16-bit: S0, S1, S3 and S4

// One batch entry, f32, inputs drawn from N(0, 1).
inline Problem config_of(Index heads, Index heads_kv, Index seqlen, Index head_dim, int world_size,
                         const char* mask = "full", PartitionKind partition = kContiguous) {
  Problem config;
  config.shape = {1, heads, heads_kv, seqlen, head_dim};
  config.mask = MaskSpec::parse(mask);
  config.partition = partition;
  config.world_size = world_size;
  return config;
}

inline RingRun recorded_run(const Problem& config) {
  const Tensors<float> in = random_tensors(config.shape, 17);
  return run_on_threads(config, {in.q, in.k, in.v, in.dout});
}

// Return the events of one lane and payload of a rank. Compute events have the payload kv.
inline std::vector<TraceEvent> events_of(const RingRun& run, int rank, Lane lane,
                                         Payload payload = Payload::kv) {
  std::vector<TraceEvent> found;
  for (const TraceEvent& event : run.recording.events[static_cast<std::size_t>(rank)])
    if (event.lane == lane && event.payload == payload) found.push_back(event);
  return found;
}

inline double bytes_sent(const RingRun& run, int rank) {
  double bytes = 0;
  for (const TraceEvent& event : events_of(run, rank, Lane::send))
    bytes += static_cast<double>(event.bytes);
  return bytes;
}

}  // namespace ringscope::claims

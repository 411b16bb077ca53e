// Problems for the ring on one GPU, and how its tests run them: on the host model or on a GPU,
// through the same calls.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/ring/loop_counts.h"
#include "core/trace/summary.h"
#include "cuda/ring/run_on_gpu.h"
#include "tests/core/ring/ring_case.h"
#include "tests/cuda/ring_step_harness.h"

namespace ringscope::cuda {

// The kernels that these tests run the ring with, whatever is best: CUDA cores for f32, tensor
// cores without Hopper's for halves, of which the host model runs small problems fast enough.
inline GpuOptions options_for(DType dtype) {
  GpuOptions options;
  options.kernels = dtype == DType::f32 ? KernelWish{4, 8} : KernelWish{5, 9};
  return options;
}

// Marks the test as skipped where there is no device for them; it is to return then.
inline bool skip_without_gpu() { return skip_without_device({}); }

inline RingRun run(const RingReference& problem, const Problem& config) {
  return run_on_gpu(config, problem.inputs, {}, options_for(config.dtype));
}

// How far dq, dk and dv come from the oracle where P and dS are rounded to the dtype, as matrix units
// take them, and nothing else is but the results. CPUs keep P and dS in f32, so what they do in 16
// bits bounds the rounding of results alone: dQ of kernel 09 was as wrong as this one's,
// to five digits, and twice as wrong as the CPU's.
inline std::array<double, 3> rounding_of(const RingReference& problem) {
  if (problem.dtype == DType::f32) return {};
  const AttentionShape& shape = problem.shape;
  StepCase tested{.batch = static_cast<int>(shape.batch),
                  .heads = static_cast<int>(shape.num_heads),
                  .heads_kv = static_cast<int>(shape.num_heads_kv),
                  .seqlen = shape.seqlen,
                  .head_dim = static_cast<int>(shape.head_dim),
                  .mask = problem.mask,
                  .dtype = problem.dtype};
  tested.score_deviation = problem.scale * std::sqrt(static_cast<float>(shape.head_dim));
  const Gradients plain =
      plain_backward(tested, random_tensors(shape, problem.seed, problem.dtype));
  const auto error = [&](std::vector<double> values, const std::vector<double>& expected) {
    for (double& x : values) x = round_to(problem.dtype, static_cast<float>(x));
    return max_abs_error(values, expected);
  };
  return {error(plain.dq, problem.oracle.dq), error(plain.dk, problem.oracle.dk),
          error(plain.dv, problem.oracle.dv)};
}

// A pass forward and back over so many ranks, and values for it.
struct ShapedProblem {
  Problem config;
  Tensors<float> in;

  ShapedProblem(const AttentionShape& shape, const char* mask, const char* partition,
                const char* scheme, int world_size, DType dtype = DType::f32)
      : config{.shape = shape,
               .dtype = dtype,
               .mask = MaskSpec::parse(mask),
               .partition = PartitionSpec::parse(partition),
               .world_size = world_size,
               .hops = Hops::needed,
               .backward = true},
        in(random_tensors(shape, 81, dtype)) {
    set_scheme(config, scheme);
    config.deal_out();
  }
  AttentionInputs inputs() const { return {in.q, in.k, in.v, in.dout}; }
  std::string described() const {
    const AttentionShape& s = config.shape;
    return config.scheme_name() + ", " + config.mask.name() + ", " + config.partition.name() +
           ", " + std::to_string(s.queries()) + " queries at " + std::to_string(s.first_query()) +
           ", values of " + std::to_string(s.value_dim());
  }

  // Judge a run by attention in f64, and what it held by what it said it would.
  void check(const RingRun& run) const {
    NaiveOptions options;
    if (config.has_sinks()) options.sink_logits = config.sink_logits.data();
    expect_accurate(run.outputs,
                    naive(config.shape, config.mask.for_seqlen(config.shape.seqlen), config.scale(),
                          converted<double>(in), options),
                    config.dtype);
    EXPECT_EQ(run.peak_bytes, run.predicted_bytes);
    const RunSummary summary = summarize(run.recording);
    for (int rank = 0; rank < config.world_size; ++rank)
      EXPECT_EQ(summary.ranks[static_cast<std::size_t>(rank)].pairs_by_step,
                count_loop(config, rank).pairs_by_step);
  }
};

// Fewer queries than keys: at the end, between keys, fewer than ranks, and dealt out by themselves.
inline std::vector<ShapedProblem> with_fewer_queries() {
  const auto shape = [](Index queries, Index q_offset) {
    return AttentionShape{1, 4, 2, 41, 6, 0, queries, q_offset};
  };
  const char* const documents = "causal+documents:20,21";
  std::vector<ShapedProblem> problems{
      {shape(17, -1), "causal", "zigzag", "ring", 4},
      {shape(13, 5), "causal+window:9", "striped", "ring", 3},
      {shape(1, -1), "causal", "contiguous", "pass-q", 4},
      {shape(20, 11), "full", "fold", "pass-q", 3},
      {shape(3, 38), "causal", "zigzag", "allgather", 4},
      {shape(23, 8), documents, "documents:zigzag", "mesh:2x2", 4},
      {shape(30, 0), "causal", "striped:5", "hybrid:2", 4},
      {shape(19, 10), documents, "contiguous", "ulysses", 2},
      {shape(29, -1), "causal", "fold", "two-level:2", 4},
      {shape(11, -1), "window:9", "striped", "multi-ring:3", 5},
      {shape(16, 20), "prefix:20", "zigzag", "bidirectional", 3},
      {shape(21, -1), "causal+window:9", "contiguous", "groupcast", 4},
      {shape(25, 3), "causal", "striped", "allgather:2", 3},
  };
  ShapedProblem apart({1, 4, 2, 41, 6}, "causal", "striped:3", "ring", 4);
  apart.config.partition_q = PartitionSpec::parse("striped:20");  // more than keys on some ranks
  apart.config.deal_out();
  problems.push_back(apart);
  return problems;
}

// Values narrower and wider than keys, also where there are fewer queries.
inline std::vector<ShapedProblem> with_other_values() {
  const AttentionShape narrow{2, 4, 2, 41, 11, 6}, wide{1, 4, 2, 41, 5, 12, 23, 10};
  return {
      {narrow, "causal", "zigzag", "ring", 4},
      {wide, "full", "striped", "ring", 3},
      {narrow, "causal+window:9", "fold", "allgather", 3},
      {narrow, "causal", "contiguous", "pass-q", 3},
      {wide, "causal", "zigzag", "mesh:2x2", 4},
      {narrow, "prefix:20", "zigzag", "ulysses", 2},
      {wide, "causal", "striped", "hybrid:2", 4},
      {narrow, "causal", "contiguous", "groupcast", 4},
      {narrow, "window:9", "fold", "two-level:2", 4},
      {wide, "causal", "zigzag", "multi-ring:3", 5},
  };
}

// Learned sinks, one of which weighs nothing and one nearly all.
inline std::vector<ShapedProblem> with_sinks() {
  const AttentionShape square{2, 4, 2, 41, 6}, todays{1, 4, 2, 41, 11, 6, 17};
  std::vector<ShapedProblem> problems{
      {square, "causal", "zigzag", "ring", 4},
      {todays, "causal", "contiguous", "ring", 3},
      {square, "causal+window:9", "fold", "allgather", 3},
      {square, "causal", "striped", "allgather:2", 3},
      {todays, "causal", "zigzag", "pass-q", 3},
      {square, "causal", "zigzag", "mesh:2x2", 4},
      {square, "prefix:20", "zigzag", "ulysses", 2},
      {todays, "causal", "striped", "ulysses:2", 2},
      {square, "causal", "striped", "hybrid:2", 4},
      {todays, "causal", "contiguous", "groupcast", 4},
      {square, "window:9", "fold", "two-level:2", 4},
      {square, "full", "zigzag", "bidirectional", 3},
  };
  for (ShapedProblem& problem : problems)
    problem.config.sink_logits = {0.5f, 7, -std::numeric_limits<float>::infinity(), -2};
  return problems;
}

// What an engine for virtual ranks on the first GPU takes.
inline DeviceSetup setup_for(const Problem& config) {
  std::vector<RankSeat> seats;
  for (int rank = 0; rank < config.world_size; ++rank) seats.push_back({rank, 0});
  return DeviceSetup("cuda", config, seats, options_for(config.dtype).kernels);
}

// Every number of a run, bit by bit.
inline std::vector<std::uint32_t> bits(const AttentionOutputs& outputs) {
  std::vector<std::uint32_t> all;
  for (const auto* values :
       {&outputs.out, &outputs.lse, &outputs.dq, &outputs.dk, &outputs.dv, &outputs.dsink})
    for (const float x : *values) all.push_back(std::bit_cast<std::uint32_t>(x));
  return all;
}

inline std::string described(const RingReference& problem, const Problem& config) {
  return problem.mask + ", seqlen " + std::to_string(problem.shape.seqlen) + ", " +
         std::string(name_of(config.partition)) + ", world_size " +
         std::to_string(config.world_size) + ", " + std::string(name_of(config.scheme)) + ", " +
         std::string(name_of(config.dtype));
}

}  // namespace ringscope::cuda

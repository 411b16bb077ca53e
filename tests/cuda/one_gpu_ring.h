// Problems for the ring on one GPU, and how its tests run them: on the host model or on a GPU,
// through the same calls.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

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

// What an engine for virtual ranks on the first GPU takes.
inline DeviceSetup setup_for(const Problem& config) {
  std::vector<RankSeat> seats;
  for (int rank = 0; rank < config.world_size; ++rank) seats.push_back({rank, 0});
  return DeviceSetup("cuda", config, seats, options_for(config.dtype).kernels);
}

// Every number of a run, bit by bit.
inline std::vector<std::uint32_t> bits(const AttentionOutputs& outputs) {
  std::vector<std::uint32_t> all;
  for (const auto* values : {&outputs.out, &outputs.lse, &outputs.dq, &outputs.dk, &outputs.dv})
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

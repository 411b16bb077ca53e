// The ladder benchmark, forward and backward alike: every kernel with every tile on square steps,
// full and causal. Each step is a whole attention, first and last at once.
//
// A name is main/05_tensor_cores/bf16/d128/8192/causal/128x64. "main" marks the shapes that are
// compared with a library's kernels, and "more" the rest. "variants" are the rungs and variants of a pass
// beside the kernels that they belong to, in one list whose launches alternate, because two measurements
// of one kernel differ by more than an idea is worth. "whole" is the backward pass with all that a
// library's has, delta as well. "agreement" times nothing: it compares a kernel's results with those of
// the pass's lowest kernel for 16 bits, and with its own.
#pragma once

#include <algorithm>
#include <ranges>
#include <string>
#include <vector>

#include "bench/gpu_timing.h"
#include "cuda/kernels/step_problem.h"

namespace ringscope::cuda {

struct LadderShape {
  bool main;
  DType dtype;
  int head_dim, rows, heads, heads_kv;
  bool causal;
  // Return the step's shape, and the keys of its rows.
  StepShape step() const {
    return {1,       timed_heads(heads), timed_heads(heads_kv), timed_rows(rows), timed_rows(rows),
            head_dim};
  }
  std::vector<RowInterval> keys() const { return square_keys(timed_rows(rows), causal); }
};

// f32 kernels are some hundred times slower, so fewer heads fill the GPU and keep the time short.
// Heads are grouped as in large models, and for one shape as in most published tables.
inline std::vector<LadderShape> ladder_shapes(bool half) {
  std::vector<LadderShape> shapes;
  for (const bool causal : {false, true}) {
    if (!half) {
      shapes.push_back({true, DType::f32, 128, 4096, 16, 2, causal});
      shapes.push_back({false, DType::f32, 64, 4096, 16, 2, causal});
      continue;
    }
    for (const int rows : {8192, 4096, 16384})
      shapes.push_back({true, DType::bf16, 128, rows, 64, 8, causal});
    shapes.push_back({true, DType::bf16, 128, 16384, 16, 16, causal});
    shapes.push_back({false, DType::bf16, 64, 8192, 64, 8, causal});
    shapes.push_back({false, DType::f16, 128, 8192, 64, 8, causal});
  }
  return shapes;
}

// Return "bf16/d128/8192/causal", or "…/causal-mha" where each head of Q has K and V of its own.
inline std::string to_string(const LadderShape& shape) {
  return std::string(name_of(shape.dtype)) + "/d" + std::to_string(shape.head_dim) + "/" +
         std::to_string(shape.rows) + (shape.causal ? "/causal" : "/full") +
         (shape.heads == shape.heads_kv ? "-mha" : "");
}

// Set the counters of a launch, whose names begin with `prefix`. Operations per clock of a multiprocessor
// do not depend on the clock, which follows the power.
inline void count_speed(benchmark::State& state, const DeviceInfo& device,
                        const std::string& prefix, const StepProblem& problem,
                        const Timing& timing) {
  const double per_second = problem.flops() / timing.seconds;
  state.counters[prefix + "TFLOPs"] = per_second * 1e-12;
  if (timing.hertz > 0)
    state.counters[prefix + "per_clock"] = per_second / timing.hertz / device.multiprocessors;
}

// Time what `enqueue` enqueues of `problem`, which is to write all of its outputs.
template <class Enqueue>
void time_problem(benchmark::State& state, const DeviceInfo& device, StepProblem& problem,
                  const Enqueue& enqueue) {
  problem.poison();
  GpuTimer timer(device);
  const Timing timing = timer.median(enqueue);
  if (problem.has_nan()) return state.SkipWithError("the output has NaN");
  state.SetIterationTime(timing.seconds);
  count_speed(state, device, "", problem, timing);
}

// Let kernels for Hopper store out in 16 bits, as libraries do.
inline void round_out(StepProblem& problem, const Kernel& kernel) {
  if (kernel.limits.hopper && kernel.pass() == KernelPass::forward) problem.round_out();
}

// Add a benchmark per shape and tile.
inline void add_ladder(const DeviceInfo& device, const Kernel& kernel) {
  for (const LadderShape& shape : ladder_shapes(kernel.limits.half))
    for (const int tile : tiles_at(kernel, shape.head_dim)) {
      const std::string name = (shape.main ? "main/" : "more/") + file_name(kernel) + "/" +
                               to_string(shape) + "/" + to_string(kernel.tiles[tile]);
      add_benchmark(name, device, kernel, shape.dtype, shape.head_dim,
                    [=, &kernel](benchmark::State& state) {
                      StepProblem problem(shape.step(), shape.dtype, kernel.pass(), shape.keys());
                      round_out(problem, kernel);
                      time_problem(state, device, problem, [&](cudaStream_t stream) {
                        problem.launch(kernel, tile, true, true, stream);
                      });
                    });
    }
}

// Add a benchmark of the variants of a pass, per shape, where K and V fit L2 and where they don't: of
// each its speed, and the base's time over its own. The base is the highest kernel that has variants.
inline void add_variants(const DeviceInfo& device, KernelPass pass) {
  static std::vector<const Kernel*> of_pass[2];
  std::vector<const Kernel*>& variants = of_pass[static_cast<int>(pass)];
  for (const Kernel& rung : rungs())
    if (rung.pass() == pass) variants.push_back(&rung);
  for (const Kernel& kernel : kernels_of(pass))
    if (std::ranges::any_of(rungs(), [&](const Kernel& r) { return r.number == kernel.number; }))
      variants.push_back(&kernel);
  const Kernel& base = *variants.back();
  for (const LadderShape& shape : ladder_shapes(true)) {
    if (!shape.main || !(shape.rows == 8192 || shape.heads == shape.heads_kv)) continue;
    add_benchmark(
        "variants/" + file_name(base) + "/" + to_string(shape), device, base, shape.dtype,
        shape.head_dim, [=, &base, &variants](benchmark::State& state) {
          StepProblem problem(shape.step(), shape.dtype, base.pass(), shape.keys());
          round_out(problem, base);
          problem.poison();
          std::vector<std::function<void(cudaStream_t)>> launches;
          for (const Kernel* const kernel : variants)
            launches.push_back([&problem, kernel](cudaStream_t stream) {
              problem.launch(*kernel, 0, true, true, stream);
            });
          GpuTimer timer(device);
          const std::vector<Timing> timings = timer.medians(launches, 1);
          if (problem.has_nan()) return state.SkipWithError("the output has NaN");
          state.SetIterationTime(timings.back().seconds);
          for (std::size_t i = 0; i < variants.size(); ++i) {
            const std::string name = number_text(variants[i]->number, variants[i]->rung) + "_";
            count_speed(state, device, name, problem, timings[i]);
            state.counters[name + "over_base"] = timings.back().seconds / timings[i].seconds;
          }
        });
  }
}

// Add a benchmark of whole backward passes per main shape, with the first tile.
inline void add_whole(const DeviceInfo& device, const Kernel& kernel) {
  for (const LadderShape& shape : ladder_shapes(true)) {
    if (!shape.main) continue;
    add_benchmark(
        "whole/" + file_name(kernel) + "/" + to_string(shape) + "/" + to_string(kernel.tiles[0]),
        device, kernel, shape.dtype, shape.head_dim, [=, &kernel](benchmark::State& state) {
          StepProblem problem(shape.step(), shape.dtype, kernel.pass(), shape.keys());
          time_problem(state, device, problem, [&](cudaStream_t stream) {
            problem.launch_whole_backward(kernel, 0, stream);
          });
        });
  }
}

// Add a comparison per shape and tile, on the shapes that are timed. Results stay on the device.
inline void add_agreement(const DeviceInfo& device, const Kernel& kernel, const Kernel& lowest) {
  for (const LadderShape& shape : ladder_shapes(true)) {
    if (shape.rows != 8192 || shape.dtype != DType::bf16 ||
        (kernel.limits.rung && shape.head_dim != 128))
      continue;
    for (const int tile : tiles_at(kernel, shape.head_dim))
      add_benchmark("agreement/" + file_name(kernel) + "/" + to_string(shape) + "/" +
                        to_string(kernel.tiles[tile]),
                    device, kernel, shape.dtype, shape.head_dim,
                    [=, &kernel, &lowest](benchmark::State& state) {
                      StepProblem problem(shape.step(), shape.dtype, kernel.pass(), shape.keys());
                      const auto run = [&](const Kernel& its, int its_tile) {
                        problem.poison();
                        problem.launch(its, its_tile, true, true, nullptr);
                      };
                      run(kernel, tile);
                      problem.keep();
                      if (kernel.repeats_bits) {
                        run(kernel, tile);
                        for (const Comparison& tensor : problem.compare_kept())
                          if (tensor.different > 0)
                            return state.SkipWithError("the same launch gives other bits");
                      }
                      run(lowest, lowest.tile_for(shape.head_dim, device.shared_bytes));
                      float worst = 0;
                      for (const Comparison& tensor : problem.compare_kept())
                        worst = std::max(worst, tensor.worst);
                      if (worst > 1)
                        return state.SkipWithError(
                            ("differs from kernel " + std::to_string(lowest.number) + " by " +
                             std::to_string(worst) + " times what rounding may do")
                                .c_str());
                      state.SetIterationTime(1e-9);
                      state.counters["of_tolerance"] = worst;
                    });
  }
}

// Measure the ladder of a pass. The highest kernels come first, so that the slow ones are missing
// if time runs out.
inline int ladder_main(int argc, char** argv, KernelPass pass) {
  return gpu_benchmark_main(argc, argv, [pass](const DeviceInfo& device) {
    const auto kernels = kernels_of(pass);
    const auto lowest =
        std::ranges::find_if(kernels, [](const Kernel& k) { return k.limits.half; });
    for (const Kernel& kernel : std::views::reverse(kernels)) {
      if (kernel.limits.half) add_agreement(device, kernel, *lowest);
      add_ladder(device, kernel);
      if (pass == KernelPass::backward && kernel.limits.half) add_whole(device, kernel);
    }
    for (const Kernel& rung : rungs())
      if (rung.pass() == pass) add_agreement(device, rung, *lowest);
    add_variants(device, pass);
  });
}

}  // namespace ringscope::cuda

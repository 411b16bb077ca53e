// The ladder benchmark, forward and backward alike: every kernel with every tile on square steps,
// full and causal. Each step is a whole attention, first and last at once.
//
// A name is main/05_tensor_cores/bf16/d128/8192/causal/128x64. "main" marks the shapes that are
// compared with a library's kernels, "more" the rest.
#pragma once

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
};

// f32 kernels are some hundred times slower, so fewer heads fill the GPU and keep the time short.
inline std::vector<LadderShape> ladder_shapes(bool half) {
  std::vector<LadderShape> shapes;
  if (!half) {
    for (const bool causal : {false, true})
      shapes.push_back({true, DType::f32, 128, 4096, 16, 2, causal});
    for (const bool causal : {false, true})
      shapes.push_back({false, DType::f32, 64, 4096, 16, 2, causal});
    return shapes;
  }
  for (const int rows : {8192, 4096, 16384})
    for (const bool causal : {false, true})
      shapes.push_back({true, DType::bf16, 128, rows, 64, 8, causal});
  for (const bool causal : {false, true}) {
    shapes.push_back({false, DType::bf16, 64, 8192, 64, 8, causal});
    shapes.push_back({false, DType::f16, 128, 8192, 64, 8, causal});
  }
  return shapes;
}

inline std::string to_string(const LadderShape& shape) {
  return std::string(name_of(shape.dtype)) + "/d" + std::to_string(shape.head_dim) + "/" +
         std::to_string(shape.rows) + (shape.causal ? "/causal" : "/full");
}

// Add a benchmark per shape and tile.
inline void add_ladder(const DeviceInfo& device, const Kernel& kernel) {
  for (const LadderShape& shape : ladder_shapes(kernel.limits.half))
    for (int tile = 0; tile < static_cast<int>(kernel.tiles.size()); ++tile) {
      const std::string name = std::string(shape.main ? "main/" : "more/") + file_name(kernel) +
                               "/" + to_string(shape) + "/" +
                               to_string(kernel.tiles[static_cast<std::size_t>(tile)]);
      add_benchmark(
          name, device, kernel, shape.dtype, shape.head_dim, [=, &kernel](benchmark::State& state) {
            const StepShape step{1,          shape.heads, shape.heads_kv,
                                 shape.rows, shape.rows,  shape.head_dim};
            StepProblem problem(step, shape.dtype, kernel.pass(),
                                square_keys(shape.rows, shape.causal));
            problem.poison();
            GpuTimer timer(device);
            const double seconds = timer.median(
                [&](cudaStream_t stream) { problem.launch(kernel, tile, true, true, stream); });
            if (problem.has_nan()) return state.SkipWithError("the output has NaN");
            state.SetIterationTime(seconds);
            state.counters["TFLOPs"] = problem.flops() / seconds * 1e-12;
          });
    }
}

// Measure the ladder of a pass. The highest kernels come first, so that the slow ones are missing
// if time runs out.
inline int ladder_main(int argc, char** argv, KernelPass pass) {
  return gpu_benchmark_main(argc, argv, [pass](const DeviceInfo& device) {
    for (const Kernel& kernel : std::views::reverse(kernels_of(pass))) add_ladder(device, kernel);
  });
}

}  // namespace ringscope::cuda

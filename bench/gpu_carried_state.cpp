// The cost of carried state: a forward step in the middle of a ring, which reads and writes its
// state, against one that is first and last, in turn. carry_cost = the ratio of their times - 1.
#include <ranges>

#include "bench/gpu_timing.h"
#include "cuda/kernels/step_problem.h"

namespace ringscope::cuda {
namespace {

void add(const DeviceInfo& device, const Kernel& kernel, int rows, bool causal) {
  for (const int tile : tiles_at(kernel, 128))
    add_benchmark(
        "carried_state/" + file_name(kernel) + "/bf16/d128/" + std::to_string(rows) +
            (causal ? "/causal/" : "/full/") + to_string(kernel.tiles[tile]),
        device, kernel, DType::bf16, 128, [=, &kernel](benchmark::State& state) {
          StepProblem problem(
              {1, timed_heads(64), timed_heads(8), timed_rows(rows), timed_rows(rows), 128},
              DType::bf16, KernelPass::forward, square_keys(timed_rows(rows), causal));
          const auto launch = [&](bool whole) {
            return [&, whole](cudaStream_t stream) {
              problem.launch(kernel, tile, whole, whole, stream);
            };
          };
          GpuTimer timer(device);
          const std::vector<Timing> medians = timer.medians({launch(true), launch(false)});
          if (problem.has_nan()) return state.SkipWithError("the output has NaN");
          state.SetIterationTime(medians[1].seconds);
          state.counters["carry_cost"] = medians[1].seconds / medians[0].seconds - 1;
        });
}

}  // namespace
}  // namespace ringscope::cuda

int main(int argc, char** argv) {
  using namespace ringscope::cuda;
  return gpu_benchmark_main(argc, argv, [](const DeviceInfo& device) {
    for (const int rows : {16384, 4096})
      for (const bool causal : {false, true})
        for (const Kernel& kernel : std::views::reverse(kernels_of(KernelPass::forward)))
          if (kernel.carries_state && kernel.limits.half) add(device, kernel, rows, causal);
  });
}

// The cost of carried state: a forward step in the middle of a ring, which reads and writes its
// state, against one that is first and last, in turn. carry_cost = the ratio of their times - 1.
#include <ranges>

#include "bench/gpu_timing.h"
#include "cuda/kernels/step_problem.h"

namespace ringscope::cuda {
namespace {

void add(const DeviceInfo& device, const ForwardKernel& kernel, int rows, bool causal) {
  for (int tile = 0; tile < static_cast<int>(kernel.tiles.size()); ++tile)
    add_benchmark(
        "carried_state/" + file_name(kernel) + "/bf16/d128/" + std::to_string(rows) +
            (causal ? "/causal/" : "/full/") +
            to_string(kernel.tiles[static_cast<std::size_t>(tile)]),
        [=, &kernel](benchmark::State& state) {
          const std::string why = refusal(kernel.limits, device.architecture, DType::bf16, 128);
          if (!why.empty()) return state.SkipWithError(("skipped: " + why).c_str());
          StepProblem problem({1, 64, 8, rows, rows, 128}, DType::bf16, KernelPass::forward,
                              square_keys(rows, causal));
          const auto launch = [&](bool whole) {
            return [&, whole](cudaStream_t stream) {
              kernel.launch(problem.forward(whole, whole), DType::bf16, tile, stream);
            };
          };
          GpuTimer timer(device);
          const std::vector<double> seconds = timer.medians({launch(true), launch(false)});
          if (problem.has_nan()) return state.SkipWithError("the output has NaN");
          state.SetIterationTime(seconds[1]);
          state.counters["kernel"] = kernel.number;
          state.counters["carry_cost"] = seconds[1] / seconds[0] - 1;
        });
}

}  // namespace
}  // namespace ringscope::cuda

int main(int argc, char** argv) {
  using namespace ringscope::cuda;
  return gpu_benchmark_main(argc, argv, [](const DeviceInfo& device) {
    for (const int rows : {16384, 4096})
      for (const bool causal : {false, true})
        for (const ForwardKernel& kernel : std::views::reverse(forward_kernels()))
          if (kernel.carries_state && kernel.limits.half) add(device, kernel, rows, causal);
  });
}

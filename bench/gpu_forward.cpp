// The forward ladder on a GPU: TFLOP/s of every kernel and tile, 4 x pairs x head_dim per head.
#include <ranges>

#include "bench/gpu_ladder.h"

int main(int argc, char** argv) {
  using namespace ringscope::cuda;
  return gpu_benchmark_main(argc, argv, [](const DeviceInfo& device) {
    // Take the highest first, so that the slow ones are missing if time runs out.
    for (const ForwardKernel& kernel : std::views::reverse(forward_kernels()))
      add_ladder(
          device, kernel, KernelPass::forward,
          [&kernel](StepProblem& problem, ringscope::DType dtype, int tile, cudaStream_t stream) {
            kernel.launch(problem.forward(true, true), dtype, tile, stream);
          });
  });
}

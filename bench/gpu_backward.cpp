// The backward ladder on a GPU: TFLOP/s of every kernel and tile. A head counts as 10 x pairs x
// head_dim, the FLOPs of five products, although the kernels compute seven.
#include <ranges>

#include "bench/gpu_ladder.h"

int main(int argc, char** argv) {
  using namespace ringscope::cuda;
  return gpu_benchmark_main(argc, argv, [](const DeviceInfo& device) {
    // Take the highest first, so that the slow ones are missing if time runs out.
    for (const BackwardKernel& kernel : std::views::reverse(backward_kernels()))
      add_ladder(
          device, kernel, KernelPass::backward,
          [&kernel](StepProblem& problem, ringscope::DType dtype, int tile, cudaStream_t stream) {
            kernel.launch(problem.backward(), dtype, tile, stream);
          });
  });
}

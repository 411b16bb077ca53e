// The backward ladder on a GPU: TFLOP/s of every kernel and tile, 10 x pairs x head_dim a head,
// what five products take, although the kernels compute seven.
#include <ranges>

#include "bench/gpu_ladder.h"

int main(int argc, char** argv) {
  using namespace ringscope::cuda;
  return gpu_benchmark_main(argc, argv, [](const DeviceInfo& device) {
    // The highest first: if time runs out, it is the slow ones that lack.
    for (const BackwardKernel& kernel : std::views::reverse(backward_kernels()))
      add_ladder(
          device, kernel, KernelPass::backward,
          [&kernel](StepProblem& problem, ringscope::DType dtype, int tile, cudaStream_t stream) {
            kernel.launch(problem.backward(), dtype, tile, stream);
          });
  });
}

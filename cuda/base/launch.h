// Starts a kernel with as much dynamic shared memory as it needs. The same source serves nvcc and
// the host model, which has no <<<...>>>.
#pragma once

#include <cuda_runtime.h>

#include "cuda/base/check.h"

namespace ringscope::cuda {

struct LaunchShape {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
};

// Enqueue kernel(arguments...) on `stream`. Does nothing when the grid has no blocks. Throws
// CudaError.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
            Arguments&&... arguments) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
  if (shape.shared_bytes > 48 * 1024)
    RINGSCOPE_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                        cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(shape.shared_bytes)));
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  RINGSCOPE_CUDA(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...));
}

}  // namespace ringscope::cuda

// Starts a kernel with as much dynamic shared memory as it needs, and presents that memory there as
// one struct. The same source serves nvcc and the host model, which has no <<<...>>> and hands out
// one poisoned buffer per block, so kernels declare no other shared memory.
#pragma once

#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <utility>

#include "cuda/base/check.h"

#ifdef RINGSCOPE_MODEL
#include "cuda/emulator/runtime.h"
#include "cuda/emulator/simt.h"
#endif

namespace ringscope::cuda {

struct LaunchShape {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  bool cooperative = false;  // all blocks run at once, or the launch fails
};

// Let a kernel have `bytes` bytes of dynamic shared memory on the current device. Calls the runtime
// once per kernel, device and size. Throws CudaError.
inline void allow_shared_memory(const void* kernel, std::size_t bytes) {
  static std::mutex mutex;
  static std::map<std::pair<const void*, int>, std::size_t> allowed;
  int device = 0;
  RINGSCOPE_CUDA(cudaGetDevice(&device));
#ifdef RINGSCOPE_MODEL
  device += 64 * model::resets();  // a device that was reset knows nothing any more
#endif
  const std::lock_guard lock(mutex);
  std::size_t& now = allowed[{kernel, device}];
  if (bytes <= now) return;
  RINGSCOPE_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(bytes)));
  now = bytes;
}

// Enqueue kernel(arguments...) on `stream`. Does nothing when the grid has no blocks. Throws
// CudaError.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
            Arguments&&... arguments) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
  if (shape.shared_bytes > 48 * 1024)
    allow_shared_memory(reinterpret_cast<const void*>(kernel), shape.shared_bytes);
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute together{};
  together.id = cudaLaunchAttributeCooperative;
  together.val.cooperative = 1;
  config.attrs = &together;
  config.numAttrs = shape.cooperative ? 1 : 0;
  RINGSCOPE_CUDA(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...));
}

// Return a block's dynamic shared memory, uninitialised, aligned to 1024 bytes as swizzled TMA boxes
// demand.
template <class T>
__device__ __forceinline__ T& shared_memory() {
#ifdef RINGSCOPE_MODEL
  return *reinterpret_cast<T*>(model::shared_bytes());
#else
  extern __shared__ __align__(1024) unsigned char bytes[];
  return *reinterpret_cast<T*>(bytes);
#endif
}

}  // namespace ringscope::cuda

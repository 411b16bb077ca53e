#include "cuda/base/device_memory.h"

#include <cuda_runtime.h>

#include "cuda/base/check.h"

namespace ringscope::cuda {

void* DeviceMemory::allocate(Index bytes) {
  void* memory = nullptr;
  RINGSCOPE_CUDA(cudaMalloc(&memory, static_cast<std::size_t>(bytes)));
  try {
    // Fill with 0xff, which is NaN in every floating-point type. cudaMemset returns early, so wait.
    RINGSCOPE_CUDA(cudaMemset(memory, 0xff, static_cast<std::size_t>(bytes)));
    RINGSCOPE_CUDA(cudaStreamSynchronize(nullptr));
  } catch (...) {
    release(memory);
    throw;
  }
  return memory;
}

void DeviceMemory::release(void* memory) noexcept {
  if (memory == nullptr || cudaFree(memory) == cudaSuccess) return;
  // Waiting for a fill or a copy may have failed, so it may still be running.
  static_cast<void>(cudaDeviceSynchronize());
  static_cast<void>(cudaFree(memory));
}

void DeviceMemory::copy_in(void* to, const void* from_host, Index bytes) {
  if (bytes == 0) return;
  RINGSCOPE_CUDA(
      cudaMemcpy(to, from_host, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice));
  // A copy from pageable memory returns as soon as the bytes are staged, so wait for its end.
  RINGSCOPE_CUDA(cudaStreamSynchronize(nullptr));
}

void DeviceMemory::copy_out(void* to_host, const void* from, Index bytes) const {
  if (bytes == 0) return;
  RINGSCOPE_CUDA(
      cudaMemcpy(to_host, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost));
}

DeviceMemory& device_memory() {
  static DeviceMemory memory;
  return memory;
}

}  // namespace ringscope::cuda

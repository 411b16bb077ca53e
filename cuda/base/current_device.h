// Selects the GPU for this thread's calls, and gives access to the memory of any one GPU.
#pragma once

#include <cuda_runtime.h>

#include "cuda/base/check.h"
#include "cuda/base/device_memory.h"

namespace ringscope::cuda {

// Makes `device` the thread's current device until the end of the scope.
class CurrentDevice {
 public:
  // Throws CudaError.
  explicit CurrentDevice(int device) {
    RINGSCOPE_CUDA(cudaGetDevice(&before_));
    if (device != before_) RINGSCOPE_CUDA(cudaSetDevice(device));
  }
  ~CurrentDevice() { static_cast<void>(cudaSetDevice(before_)); }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = 0;
};

// Wait for all work on `device`, also after errors. The thread's current device does not change.
inline void synchronize_device(int device) noexcept {
  int before = 0;
  static_cast<void>(cudaGetDevice(&before));
  static_cast<void>(cudaSetDevice(device));
  static_cast<void>(cudaDeviceSynchronize());
  static_cast<void>(cudaSetDevice(before));
}

// The device_memory() of `device`, whichever device is current.
class MemoryOfDevice : public MemorySpace {
 public:
  explicit MemoryOfDevice(int device) : device_(device) {}

  void* allocate(Index bytes) override {
    const CurrentDevice current(device_);
    return device_memory().allocate(bytes);
  }
  void release(void* memory) noexcept override { device_memory().release(memory); }
  void copy_in(void* to, const void* from_host, Index bytes) override {
    const CurrentDevice current(device_);
    device_memory().copy_in(to, from_host, bytes);
  }
  void copy_out(void* to_host, const void* from, Index bytes) const override {
    const CurrentDevice current(device_);
    device_memory().copy_out(to_host, from, bytes);
  }

 private:
  int device_;
};

}  // namespace ringscope::cuda

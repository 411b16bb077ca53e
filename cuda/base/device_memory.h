// The memory of devices, the current device, and host memory that a device reads and writes
// directly.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "core/base/buffer.h"
#include "cuda/base/check.h"

namespace ringscope::cuda {

// Host memory under the same address on the device.
template <class T>
class PinnedBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  PinnedBuffer() = default;
  // Allocate `size` uninitialised elements. Throws CudaError.
  explicit PinnedBuffer(std::size_t size) : size_(size) {
    T* data = nullptr;
    if (size > 0) RINGSCOPE_CUDA(cudaMallocHost(reinterpret_cast<void**>(&data), size * sizeof(T)));
    data_.reset(data);
  }

  T* data() { return data_.get(); }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data_.get()[i]; }
  const T& operator[](std::size_t i) const { return data_.get()[i]; }
  std::span<T> span() { return {data_.get(), size_}; }

 private:
  Owned<T*, cudaFreeHost> data_;
  std::size_t size_ = 0;
};

// ---
// DeviceMemory is device memory behind the interface of core/base. A Buffer whose meter uses it is
// a device buffer that frees itself and is counted.

// The memory of the current device. Every call has finished, on the device too, when it returns.
// Streams that do not wait for the legacy stream may therefore use the memory at once.
class DeviceMemory : public MemorySpace {
 public:
  // Throws CudaError, with status cudaErrorMemoryAllocation when there is too little memory.
  void* allocate(Index bytes) override;
  void release(void* memory) noexcept override;
  void copy_in(void* to, const void* from_host, Index bytes) override;
  void copy_out(void* to_host, const void* from, Index bytes) const override;
};

DeviceMemory& device_memory();

// ---
// Selects the GPU for this thread's calls, and gives access to the memory of any one GPU.

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

// Host memory that the device copies to and writes to directly, under the same address.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "core/base/buffer.h"
#include "cuda/base/check.h"

namespace ringscope::cuda {

template <class T>
class PinnedBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  PinnedBuffer() = default;
  // Not initialised. Throws CudaError.
  explicit PinnedBuffer(std::size_t size) : size_(size) {
    if (size > 0)
      RINGSCOPE_CUDA(cudaMallocHost(reinterpret_cast<void**>(&data_), size * sizeof(T)));
  }
  PinnedBuffer(PinnedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~PinnedBuffer() {
    if (data_ != nullptr) static_cast<void>(cudaFreeHost(data_));
  }

  T* data() { return data_; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  std::span<T> span() { return {data_, size_}; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

// ---
// The device's memory as core/base knows memory, so that a Buffer whose meter stands on it is a
// device buffer that frees itself and is accounted for.

// That of the current device. Every call has ended when it returns, on the device too: streams that
// don't wait for the legacy stream may use the memory at once.
class DeviceMemory : public MemorySpace {
 public:
  // Throws CudaError, whose status is cudaErrorMemoryAllocation where there is too little.
  void* allocate(Index bytes) override;
  void release(void* memory) noexcept override;
  void copy_in(void* to, const void* from_host, Index bytes) override;
  void copy_out(void* to_host, const void* from, Index bytes) const override;
};

DeviceMemory& device_memory();

}  // namespace ringscope::cuda

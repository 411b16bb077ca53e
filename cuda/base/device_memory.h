// A PinnedBuffer is host memory that the device reads and writes directly, under the same address.
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
  // Allocate `size` uninitialised elements. Throws CudaError.
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

}  // namespace ringscope::cuda

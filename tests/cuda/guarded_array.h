// Device memory for tests: between two guards, all of it 0xff bytes (NaN in every float type) until
// something is written. So a value that is read before it was written, or from beyond the end,
// shows as NaN, and a write beyond the end shows in the guards.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "core/base/math.h"
#include "cuda/base/check.h"

namespace ringscope::cuda {

template <class T>
class GuardedArray {
 public:
  explicit GuardedArray(Index size) : size_(size) {
    RINGSCOPE_CUDA(cudaMalloc(&memory_, bytes() + 2 * kGuardBytes));
    RINGSCOPE_CUDA(cudaMemset(memory_, 0xff, bytes() + 2 * kGuardBytes));
  }
  explicit GuardedArray(const std::vector<T>& values)
      : GuardedArray(static_cast<Index>(values.size())) {
    upload(values);
  }
  GuardedArray(GuardedArray&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), size_(other.size_) {}
  GuardedArray& operator=(GuardedArray&&) = delete;
  ~GuardedArray() {
    if (memory_ != nullptr) cudaFree(memory_);
  }

  Index size() const { return size_; }
  T* data() const {
    return reinterpret_cast<T*>(static_cast<unsigned char*>(memory_) + kGuardBytes);
  }

  void upload(const std::vector<T>& values) {
    RINGSCOPE_CUDA(cudaMemcpy(data(), values.data(), bytes(), cudaMemcpyHostToDevice));
  }
  std::vector<T> download() const {
    std::vector<T> values(static_cast<std::size_t>(size_));
    RINGSCOPE_CUDA(cudaMemcpy(values.data(), data(), bytes(), cudaMemcpyDeviceToHost));
    return values;
  }
  void fill(unsigned char byte) { RINGSCOPE_CUDA(cudaMemset(data(), byte, bytes())); }
  bool guards_intact() const {
    std::vector<unsigned char> all(bytes() + 2 * kGuardBytes);
    RINGSCOPE_CUDA(cudaMemcpy(all.data(), memory_, all.size(), cudaMemcpyDeviceToHost));
    const auto untouched = [](unsigned char byte) { return byte == 0xff; };
    return std::all_of(all.begin(), all.begin() + kGuardBytes, untouched) &&
           std::all_of(all.end() - kGuardBytes, all.end(), untouched);
  }

 private:
  static constexpr std::size_t kGuardBytes = 1024;  // keeps the alignment of cudaMalloc

  std::size_t bytes() const { return static_cast<std::size_t>(size_) * sizeof(T); }

  void* memory_ = nullptr;
  Index size_ = 0;
};

}  // namespace ringscope::cuda

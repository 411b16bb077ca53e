// A stream of its own: work on it runs in order, and beside that of all other streams, the legacy
// one included.
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "cuda/base/check.h"

namespace ringscope::cuda {

enum class StreamPriority { normal, high };

class Stream {
 public:
  // Throws CudaError.
  explicit Stream(StreamPriority priority = StreamPriority::normal) {
    int lowest = 0, highest = 0;
    RINGSCOPE_CUDA(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    RINGSCOPE_CUDA(cudaStreamCreateWithPriority(
        &stream_, cudaStreamNonBlocking, priority == StreamPriority::high ? highest : lowest));
  }
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  // Waits for the work on it, so that nothing uses what its owner lets go of next.
  ~Stream() {
    if (stream_ == nullptr) return;
    static_cast<void>(cudaStreamSynchronize(stream_));
    static_cast<void>(cudaStreamDestroy(stream_));
  }

  cudaStream_t get() const { return stream_; }
  void synchronize() const { RINGSCOPE_CUDA(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace ringscope::cuda

// A point in a stream that other streams and the host can wait for; a timed one also says when the
// stream came by.
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "cuda/base/check.h"

namespace ringscope::cuda {

enum class EventKind { timed, untimed };

class Event {
 public:
  // Throws CudaError, as everything here.
  explicit Event(EventKind kind) {
    RINGSCOPE_CUDA(cudaEventCreateWithFlags(
        &event_, kind == EventKind::timed ? cudaEventDefault : cudaEventDisableTiming));
  }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~Event() {
    if (event_ != nullptr) static_cast<void>(cudaEventDestroy(event_));
  }

  void record(cudaStream_t stream) { RINGSCOPE_CUDA(cudaEventRecord(event_, stream)); }
  // Later work on `stream` starts after it.
  void hold(cudaStream_t stream) const { RINGSCOPE_CUDA(cudaStreamWaitEvent(stream, event_, 0)); }
  bool done() const {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) return false;
    RINGSCOPE_CUDA(status);
    return true;
  }
  void wait() const { RINGSCOPE_CUDA(cudaEventSynchronize(event_)); }
  // Milliseconds from `earlier` to this, both timed and done; to half a microsecond, or to the last
  // digit of a float.
  float ms_since(const Event& earlier) const {
    float ms = 0;
    RINGSCOPE_CUDA(cudaEventElapsedTime(&ms, earlier.event_, event_));
    return ms;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace ringscope::cuda

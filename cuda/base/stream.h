// Streams and events as owning objects. Work on a Stream runs in order, and concurrently with all
// other streams, including the legacy one.
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "cuda/base/check.h"

#ifndef RINGSCOPE_MODEL
#include <nvtx3/nvToolsExt.h>
#endif

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
  // Wait for the stream's work, so that nothing still uses what the owner frees next.
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

// ---
// An Event is a point in a stream that other streams and the host can wait for. A timed event also
// tells when the stream reached it.

enum class EventKind { timed, untimed };

class Event {
 public:
  // Throws CudaError, as all members do.
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
  // Make later work on `stream` start after this event.
  void hold(cudaStream_t stream) const { RINGSCOPE_CUDA(cudaStreamWaitEvent(stream, event_, 0)); }
  bool done() const {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) return false;
    RINGSCOPE_CUDA(status);
    return true;
  }
  void wait() const { RINGSCOPE_CUDA(cudaEventSynchronize(event_)); }
  // Return the milliseconds from `earlier` to this event. Both must be timed and done. The
  // resolution is half a microsecond or the last digit of a float.
  float ms_since(const Event& earlier) const {
    float ms = 0;
    RINGSCOPE_CUDA(cudaEventElapsedTime(&ms, earlier.event_, event_));
    return ms;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// ---
// A named range of host code, which NVIDIA's profilers show on the thread's line. It costs next to
// nothing when no profiler listens.

class Range {
 public:
  explicit Range([[maybe_unused]] const char* name) {
#ifndef RINGSCOPE_MODEL
    nvtxRangePushA(name);
#endif
  }
  ~Range() {
#ifndef RINGSCOPE_MODEL
    nvtxRangePop();
#endif
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace ringscope::cuda

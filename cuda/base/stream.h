// Streams and events as owning objects. Work on a Stream runs in order, and concurrently with all
// other streams, including the legacy one.
#pragma once

#include <cuda_runtime.h>

#include <utility>
#include <vector>

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
    cudaStream_t stream = nullptr;
    RINGSCOPE_CUDA(cudaStreamCreateWithPriority(
        &stream, cudaStreamNonBlocking, priority == StreamPriority::high ? highest : lowest));
    stream_.reset(stream);
  }

  cudaStream_t get() const { return stream_.get(); }
  void synchronize() const { RINGSCOPE_CUDA(cudaStreamSynchronize(get())); }

 private:
  // Waits for the stream's work, so that nothing still uses what the owner frees next.
  static cudaError_t end(cudaStream_t stream) {
    static_cast<void>(cudaStreamSynchronize(stream));
    return cudaStreamDestroy(stream);
  }
  Owned<cudaStream_t, end> stream_;
};

// ---
// An Event is a point in a stream that other streams and the host can wait for. It tells when the
// stream reached it.

class Event {
 public:
  // Throws CudaError, as all members do.
  Event() {
    cudaEvent_t event = nullptr;
    RINGSCOPE_CUDA(cudaEventCreateWithFlags(&event, cudaEventDefault));
    event_.reset(event);
  }

  void record(cudaStream_t stream) { RINGSCOPE_CUDA(cudaEventRecord(event_.get(), stream)); }
  // Make later work on `stream` start after this event.
  void hold(cudaStream_t stream) const {
    RINGSCOPE_CUDA(cudaStreamWaitEvent(stream, event_.get(), 0));
  }
  bool done() const {
    const cudaError_t status = cudaEventQuery(event_.get());
    if (status == cudaErrorNotReady) return false;
    RINGSCOPE_CUDA(status);
    return true;
  }
  void wait() const { RINGSCOPE_CUDA(cudaEventSynchronize(event_.get())); }
  // Return the milliseconds from `earlier` to this event. Both must be done. The
  // resolution is half a microsecond or the last digit of a float.
  float ms_since(const Event& earlier) const {
    float ms = 0;
    RINGSCOPE_CUDA(cudaEventElapsedTime(&ms, earlier.event_.get(), event_.get()));
    return ms;
  }

 private:
  Owned<cudaEvent_t, cudaEventDestroy> event_;
};

// Return one of the events that were made before a run, or a new one if none is left. Making one calls
// the driver, whose lock the threads of all ranks then wait for.
inline Event take_event(std::vector<Event>& made) {
  if (made.empty()) return Event();
  Event event = std::move(made.back());
  made.pop_back();
  return event;
}

// ---
// A named range of host code, which NVIDIA's profilers show on the thread's line. It costs next to
// nothing when no profiler listens.

#ifdef RINGSCOPE_MODEL
struct Range {
  explicit Range(const char*) {}
};
#else
class Range {
 public:
  explicit Range(const char* name) { nvtxRangePushA(name); }
  ~Range() { nvtxRangePop(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};
#endif

}  // namespace ringscope::cuda

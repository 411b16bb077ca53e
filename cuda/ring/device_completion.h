// Completions on a device. The host goes on as soon as work is enqueued; it is streams that wait,
// by events.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <utility>

#include "core/ring/completion.h"
#include "cuda/base/event.h"

namespace ringscope::cuda {

class DeviceCompletion : public PendingOperation {
 public:
  // Lets work that is enqueued on `stream` from now on start after it. Blocks the host at most
  // until a peer has asked for its half of a hop, never for work on the device. Throws RunError.
  virtual void hold(cudaStream_t stream) = 0;
};

// The end of what was enqueued on a stream so far.
class EventCompletion : public DeviceCompletion {
 public:
  explicit EventCompletion(cudaStream_t stream) : event_(EventKind::untimed) {
    event_.record(stream);
  }

  bool done() const override { return event_.done(); }
  void wait() override { event_.wait(); }
  TransferTimes times() const override { return {}; }
  void hold(cudaStream_t stream) override { event_.hold(stream); }

 private:
  Event event_;
};

// Lets later work on `stream` start after `completion`. One that is no device's is waited for here.
inline void wait_on(cudaStream_t stream, const Completion& completion) {
  if (completion == nullptr) return;
  if (const auto on_device = std::dynamic_pointer_cast<DeviceCompletion>(completion)) {
    on_device->hold(stream);
  } else {
    completion->wait();
  }
}

}  // namespace ringscope::cuda

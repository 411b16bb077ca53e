// Virtual ranks on one GPU share its multiprocessors. Kernels that run at once each take longer,
// and who is slow because of its own work can't be told any more. So they may take turns: each
// starts after the one that was enqueued before it, whichever rank's, and the time between its
// begin and its end is its own. Copies go on beside them.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <mutex>
#include <utility>

#include "cuda/base/stream.h"

namespace ringscope::cuda {

// Thread-safe. No deadlock: a turn waits for work that is in a stream already.
class KernelTurns {
 public:
  // enqueue() puts one turn's work on `stream`.
  template <class F>
  void take(cudaStream_t stream, F&& enqueue) {
    const std::lock_guard lock(mutex_);
    if (last_ != nullptr) last_->hold(stream);
    enqueue();
    auto done = std::make_unique<Event>(EventKind::untimed);
    done->record(stream);
    last_ = std::move(done);
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<Event> last_;
};

}  // namespace ringscope::cuda

// Lets the kernels of virtual ranks on one GPU take turns. Kernels that run at once share its
// multiprocessors, so each takes longer, and a rank's own work can no longer be told from its time.
// With turns, a kernel starts after the one enqueued before it, whichever rank's that is, so the
// time from its begin to its end is its own. Copies still run beside kernels.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <mutex>
#include <utility>

#include "cuda/base/stream.h"

namespace ringscope::cuda {

// Thread-safe. It cannot deadlock, because a turn waits only for work that is already in a stream.
class KernelTurns {
 public:
  // Take a turn, whose work enqueue() puts on `stream`.
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

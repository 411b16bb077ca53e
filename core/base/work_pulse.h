// A sign of life from long work, and a way to tell the work to stop.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/error.h"

namespace ringscope {

// The worker ticks it and any thread may read it. A tick costs a few nanoseconds.
class WorkPulse {
 public:
  // Count one more small piece as done.
  void advance() { progress_.fetch_add(1, std::memory_order_relaxed); }
  // Count it where the work can be abandoned: throw RunError after stop().
  void tick() {
    advance();
    if (is_stopped()) throw RunError("stopped before its work was done");
  }
  std::uint64_t progress() const { return progress_.load(std::memory_order_relaxed); }

  void stop() { stopped_.store(true, std::memory_order_relaxed); }
  bool is_stopped() const { return stopped_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> progress_ = 0;
  std::atomic<bool> stopped_ = false;
};

}  // namespace ringscope

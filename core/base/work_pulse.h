// A long piece of work shows that it goes on, and can be told to stop.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/error.h"

namespace ringscope {

// Ticked by whoever works, read by any thread. Costs a few nanoseconds a tick.
class WorkPulse {
 public:
  // One more small piece is done.
  void advance() { progress_.fetch_add(1, std::memory_order_relaxed); }
  // The same, where the work can be left: throws RunError after stop().
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

// "This has happened, or can be waited for." The ring loop never waits by itself: it hands each
// operation the completions it must come after, and gets one back. On threads a completion is a
// flag under a lock, on a GPU an event in a stream.
#pragma once

#include <cstdint>
#include <memory>

namespace ringscope {

// When a transfer was running, in monotonic nanoseconds; `last_peer` is the rank whose part came
// last.
struct TransferTimes {
  std::int64_t send_begin = 0, send_end = 0;
  std::int64_t recv_begin = 0, recv_end = 0;
  int last_peer = -1;
};

// Whom an operation that has not happened waits for, and in the hop of which ring step; -1: not known.
// The rank itself when nothing but its own part is missing.
struct Awaited {
  int rank = -1;
  int step = -1;
};

class PendingOperation {
 public:
  virtual ~PendingOperation() = default;
  virtual bool done() const = 0;
  // Returns once it has happened; throws RunError when it never will.
  virtual void wait() = 0;
  // Only after it has happened.
  virtual TransferTimes times() const = 0;

  // While it has not happened; thread-safe.
  virtual Awaited awaited() const { return {}; }
  // Of one that a failure ended: what did happen. A part that did not has its end at 0.
  virtual TransferTimes times_so_far() const { return {}; }
};

// Null: already happened.
using Completion = std::shared_ptr<PendingOperation>;

inline void wait_for(const Completion& completion) {
  if (completion != nullptr) completion->wait();
}

}  // namespace ringscope

// What a kind of machine contributes to a run: where the ranks' memory lies, who moves their blocks,
// who attends them, and how both are recorded. The rest of a run (run.h, rank.h) is the same for
// all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/buffer.h"
#include "core/base/error.h"
#include "core/ring/seams.h"

namespace ringscope {

class Rank;

// One rank's. Made before the ranks start and destroyed after all have ended, so that a rank that
// failed does not take away what its peers still wait for; used by its rank's thread.
class RankEngine {
 public:
  virtual ~RankEngine() = default;
  virtual Communicator& communicator() = 0;  // recorded, as the backend
  virtual BlockBackend& backend() = 0;
  // Returns when everything that was started has happened and is recorded. Throws RunError.
  virtual void finish() = 0;
  // Instead of it, after a failure, when the rank's thread has ended: records what has happened,
  // waits for nothing.
  virtual void finish_failed() {}
  // Bytes that it takes on the rank's meter, by formula.
  virtual Index scratch_bytes() const = 0;
  // How far the recorded times may be from those of the clock that all ranks share.
  virtual std::int64_t clock_error_ns() const { return 0; }
};

class Engine {
 public:
  // Called after each attended block with the pairs in it, on the rank's thread.
  using Listener = std::function<void(Index pairs)>;

  virtual ~Engine() = default;
  virtual std::string_view name() const = 0;  // "cpu", "cuda"
  virtual MemorySpace& memory() = 0;
  // Of one rank, where ranks have different ones.
  virtual MemorySpace& memory_of(int /*rank*/) { return memory(); }
  // Lines about choices that it made for the run, each ended; empty when there were none.
  virtual std::string notes() const { return ""; }
  // Whether its ranks keep their pulse going while they work, so that one that does not is stuck
  // (watchdog.h).
  virtual bool has_pulses() const { return false; }
  // `listener` may be empty.
  virtual std::unique_ptr<RankEngine> make(Rank& rank, const Listener& listener) = 0;

  // Ends every wait of every rank with `error`; the first call counts. Thread-safe.
  virtual void fail(const RunError& error) = 0;
  // Throws the RunError that fail() was called with, if it was.
  virtual void throw_if_failed() = 0;
};

}  // namespace ringscope

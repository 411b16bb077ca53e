// What a kind of machine contributes to a run: where the ranks' memory lies, who moves their
// blocks, who attends them, and how both are recorded. The rest of a run (run.h, rank.h) is the
// same for all machines.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/base/buffer.h"
#include "core/base/error.h"
#include "core/ring/seams.h"
#include "core/trace/rank_events.h"

namespace ringscope {

// Call work(rank) for every rank, each on a thread of its own, and return when all have ended. What
// it throws goes to fail(rank, RunError), which must make the other ranks end.
template <class Work, class Fail>
void run_on_rank_threads(int world_size, const Work& work, const Fail& fail) {
  std::vector<std::jthread> threads;
  threads.reserve(world_size);
  try {
    for (int rank = 0; rank < world_size; ++rank)
      threads.emplace_back([&, rank] {
        try {
          work(rank);
        } catch (...) {
          fail(rank, handled_error(rank));
        }
      });
  } catch (const std::exception& error) {
    const int rank = static_cast<int>(threads.size());
    fail(rank, RunError(std::string("cannot start a thread: ") + error.what(), rank));
  }
}

class Rank;

// One rank's engine, used by its thread. All are made before the ranks start and destroyed after
// all ranks have ended, so a failed rank does not take away what its peers still wait for.
class RankEngine {
 public:
  virtual ~RankEngine() = default;
  // Called on the rank's thread before its loops. Throw RunError.
  virtual void begin() {}
  virtual Communicator& communicator() = 0;  // both seams are recorded
  virtual BlockBackend& backend() = 0;
  // Return when everything that was started has happened, which ends the rank's time. Throw RunError.
  virtual void finish() = 0;
  // Called after finish(): record what has happened. Throw RunError.
  virtual void record() = 0;
  // Called instead of both after a failure, when the rank's thread has ended. Record what has
  // happened, and wait for nothing.
  virtual void finish_failed() {}
  // Return by formula the bytes that the engine takes on the rank's meter.
  virtual Index scratch_bytes() const = 0;
  // Return how far recorded times may be from the clock that all ranks share.
  virtual std::int64_t clock_error_ns() const { return 0; }
};

class Engine : public SharedFailure {
 public:
  // Called on the rank's thread after each attended block, with the pairs in it.
  using Listener = std::function<void(Index pairs)>;

  virtual std::string_view name() const = 0;  // "cpu", "cuda"
  virtual MemorySpace& memory() = 0;
  // Return the memory of one rank. It differs from memory() where ranks live on different devices.
  virtual MemorySpace& memory_of(int /*rank*/) { return memory(); }
  // Return one line per choice that the engine made for the run, each with its line end.
  virtual std::string notes() const { return ""; }
  // Return whether working ranks keep their pulse going, so that one without it is stuck
  // (watchdog.h).
  virtual bool has_pulses() const { return false; }
  // Make the engine of `rank`. `listener` may be empty.
  virtual std::unique_ptr<RankEngine> make(Rank& rank, const Listener& listener) = 0;
};

}  // namespace ringscope

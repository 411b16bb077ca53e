// Detects that a run has halted, and which rank caused it. A wait for a peer must not last for
// ever, but a rank may compute for minutes between two hops, so no deadline on a single wait works.
// Instead every rank has a pulse that counts small pieces of finished work (tiles, hops) and says
// where the rank is and whom it waits for. The watchdog of all pulses ends the run when one has not
// been heard of, or none has advanced, for the timeout.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/work_pulse.h"
#include "core/ring/seams.h"
#include "core/trace/event.h"

namespace ringscope {

// Where a rank is.
// [RankStatus
struct RankStatus {
  std::uint64_t progress = 0;  // grows with every finished piece of work
  Pass pass = Pass::forward;
  // -1: outside the ring. While the rank waits, this is the step of the hop that it waits for.
  int step = -1;
  int waiting_for = -1;  // the rank whose part it waits for; -1 or itself: no other rank
};
// RankStatus]

// One rank's pulse. Its thread writes it (advance(): any) in a store or two; any thread reads it.
class RankPulse : public WorkPulse {
 public:
  void at(Pass pass, int step);
  void waits_for(int rank);  // -1: waits no longer
  // Name the operation that the rank waits on. Until it has happened, `operation` says which rank
  // is awaited, or `peer` where it does not know. A null `operation` ends the wait.
  void waits_on(Completion operation, int peer);
  // Say that the rank works outside of the run, where every look at its status counts as progress.
  void works_outside(bool works) { works_outside_.store(works, std::memory_order_relaxed); }
  RankStatus status() const;

 private:
  std::atomic<int> pass_ = 0, step_ = -1, waiting_for_ = -1;
  std::atomic<bool> works_outside_ = false;
  mutable std::atomic<std::uint64_t> looks_ = 0;  // the looks that counted as progress
  mutable std::mutex mutex_;
  Completion operation_;  // guarded by the mutex
};

// Shows in the pulse what its rank waits for, as long as the object lives.
class ShownWait {
 public:
  // `pulse` may be null. The other arguments are those of RankPulse::waits_on.
  ShownWait(RankPulse* pulse, const Completion& operation, int peer) : pulse_(pulse) {
    if (pulse_ != nullptr) pulse_->waits_on(operation, peer);
  }
  ~ShownWait() {
    if (pulse_ == nullptr) return;
    pulse_->waits_on(nullptr, -1);
    pulse_->advance();
  }
  ShownWait(const ShownWait&) = delete;
  ShownWait& operator=(const ShownWait&) = delete;

 private:
  RankPulse* pulse_;
};

// Keeps its rank from counting as stuck, as long as the object lives. The rank waits for something
// that no rank can hurry, such as a slow disk or a reader who does not read on.
class ShownOutsideWork {
 public:
  explicit ShownOutsideWork(RankPulse& pulse) : pulse_(pulse) { pulse_.works_outside(true); }
  ~ShownOutsideWork() { pulse_.works_outside(false); }
  ShownOutsideWork(const ShownOutsideWork&) = delete;
  ShownOutsideWork& operator=(const ShownOutsideWork&) = delete;

 private:
  RankPulse& pulse_;
};

// Return a function that calls `call`, which must outlive it, outside of the pulse's run. The function is
// empty if `call` is.
template <class... Arguments>
std::function<void(Arguments...)> outside(RankPulse& pulse,
                                          const std::function<void(Arguments...)>& call) {
  if (!call) return {};
  return [&pulse, &call](Arguments... arguments) {
    const ShownOutsideWork shown(pulse);
    call(arguments...);
  };
}

// Finds a stall from what it is told, without a clock or transport. Times are seconds of one clock.
class StallJudge {
 public:
  // Start with every rank heard of at `now`.
  StallJudge(int world_size, double timeout_s, double now);

  void heard(int rank, const RankStatus& status, double now);
  // Note that a rank has ended well, so it is not waited for.
  void ended(int rank, double now);
  // Return the failure that names the culprit, once there is one. That is the rank silent for
  // longest, or else one that waits for nobody (preferably one that others wait for), or else, in a
  // circle, the one furthest behind. The lowest rank wins a tie.
  std::optional<RunError> verdict(double now) const;

 private:
  bool is_awaited(int rank) const;
  int culprit() const;
  std::string circle_from(int rank) const;

  struct Seat {
    RankStatus status;
    double heard_at = 0;
    bool has_ended = false;
  };
  std::vector<Seat> seats_;
  double timeout_s_;
  double advanced_at_;  // when any progress last grew
};

// ---
// Watches the ranks of one process, each a thread. It ends a halted run, and stops the ranks that
// are still at work once the run has failed.

class Watchdog {
 public:
  // `pulses` (one per rank) and `ranks` must outlive it. `stuck` is as in Progress. Throw RunError if
  // its thread can't start.
  Watchdog(std::vector<RankPulse*> pulses, double timeout_s, SharedFailure& ranks,
           std::function<void(const RunError&)> stuck = {});
  ~Watchdog();

  // Note that the rank's thread has ended, well or not.
  void ended(int rank);

 private:
  void run();
  std::optional<RunError> failure();

  std::vector<RankPulse*> pulses_;
  const double timeout_s_;
  SharedFailure& ranks_;
  std::function<void(const RunError&)> stuck_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable closing_;
  StallJudge judge_;
  double now_ = 0;  // seconds in which the ranks could work
  bool closed_ = false;
  std::vector<bool> ended_;
  std::thread thread_;
};

}  // namespace ringscope

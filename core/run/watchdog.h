// Has the run come to a halt, and through whom? A wait for a peer must not last for ever, but a rank
// may compute for minutes between two hops, so that no deadline on a single wait would do. Instead
// every rank has a pulse: it counts small pieces of finished work (tiles, hops), and says where the
// rank is and whom it waits for. Whoever watches all pulses ends the run when one of them has not
// been heard of for the timeout, or when none of them has advanced for that long.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/work_pulse.h"
#include "core/ring/seams.h"
#include "core/run/engine.h"
#include "core/trace/event.h"

namespace ringscope {

// Where a rank is.
// [RankStatus
struct RankStatus {
  std::uint64_t progress = 0;  // grows with everything that it finishes
  Pass pass = Pass::forward;
  // -1: not in the ring yet, or no longer. While it waits: the step of the hop that it waits for.
  int step = -1;
  int waiting_for = -1;  // the rank whose part it waits for; -1, or itself: none
};
// RankStatus]

// One rank's, written by its thread (advance: by any), read by any. Costs a store or two.
class RankPulse : public WorkPulse {
 public:
  void at(Pass pass, int step);
  void waits_for(int rank);  // -1: no longer
  // For as long as it has not happened, it is `operation` that knows whom the rank waits for; `peer`
  // where it does not. Null: no longer.
  void waits_on(Completion operation, int peer);
  // While the rank is at work outside of the run, every look at its status counts as progress.
  void works_outside(bool works) { works_outside_.store(works, std::memory_order_relaxed); }
  RankStatus status() const;

 private:
  std::atomic<int> pass_ = 0, step_ = -1, waiting_for_ = -1;
  std::atomic<bool> works_outside_ = false;
  mutable std::atomic<std::uint64_t> looks_ = 0;  // those that counted
  mutable std::mutex mutex_;
  Completion operation_;  // guarded by the mutex
};

// As long as it lives, the pulse says what its rank waits for.
class ShownWait {
 public:
  // `pulse` may be null; the rest as for RankPulse::waits_on.
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

// As long as it lives, its rank is not taken for stuck, however long that is: it waits for something
// that no rank can hurry, such as a slow disk, or a reader who does not read on.
class ShownOutsideWork {
 public:
  explicit ShownOutsideWork(RankPulse& pulse) : pulse_(pulse) { pulse_.works_outside(true); }
  ~ShownOutsideWork() { pulse_.works_outside(false); }
  ShownOutsideWork(const ShownOutsideWork&) = delete;
  ShownOutsideWork& operator=(const ShownOutsideWork&) = delete;

 private:
  RankPulse& pulse_;
};

// Judges by what it is told; knows no clock and no transport. Times in seconds of any one clock.
class StallJudge {
 public:
  // Every rank counts as heard of at `now`.
  StallJudge(int world_size, double timeout_s, double now);

  void heard(int rank, const RankStatus& status, double now);
  // A rank that has ended well is not waited for.
  void ended(int rank, double now);
  // The failure that names the culprit, once there is one: the rank that has been silent for longest;
  // or else one that the others wait for and that waits for nobody; or else, in a circle, the one
  // that is furthest behind. The lowest rank of several alike.
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
  double advanced_at_;  // when any progress was last seen to grow
};

// ---
// Watches the ranks of one process, each a thread: ends a run that has come to a halt, and tells
// those that are still at work to stop once it has failed.

class Watcher {
 public:
  // `pulses`, one a rank, and `engine` must outlive it. Throws RunError when there is no thread for it.
  Watcher(std::vector<RankPulse*> pulses, double timeout_s, Engine& engine);
  ~Watcher();

  // The rank's thread has ended, well or not.
  void ended(int rank);

 private:
  void run();
  bool has_failed();

  std::vector<RankPulse*> pulses_;
  const double timeout_s_;
  Engine& engine_;
  std::mutex mutex_;  // guards the next three
  std::condition_variable closing_;
  bool closed_ = false;
  std::vector<bool> ended_;
  std::thread thread_;
};

}  // namespace ringscope

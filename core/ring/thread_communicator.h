// Communicator between threads of one process. Each rank has a copy engine, a thread of its own
// that pulls blocks from the previous rank's memory in the order in which they were asked for, so
// that communication runs beside compute as a GPU's copy engine or NCCL's stream would. (With one
// rank there is nothing to copy.)
//
// No deadlock by design: every wait ends either with what it waits for or with the failure of some
// rank.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/ring/seams.h"

namespace ringscope {

// What the ranks of one process share. Must outlive its communicators; the memory that a rank's hops
// name must outlive its communicator, whose end waits for a peer that is reading it.
class ThreadRing {
 public:
  explicit ThreadRing(int world_size);

  int world_size() const { return static_cast<int>(seats_.size()); }

  // Ends every wait of every rank with `error`; the first call counts. Thread-safe.
  void fail(const RunError& error);
  // Throws the RunError that fail() was called with, if it was.
  void throw_if_failed();

 private:
  friend class ThreadCommunicator;
  friend class ThreadHop;

  // A rank's hops are numbered in the order in which they were started. Those that are over on both
  // sides are forgotten: a training run starts millions.
  struct Seat {
    std::condition_variable changed;
    std::deque<std::shared_ptr<class ThreadHop>> hops;
    std::size_t forgotten = 0;  // before the first of them
    bool closed = false;        // no more will come
    bool is_read = false;       // the next rank's copy engine is copying one of its blocks

    // Whether hop i was started.
    bool has(std::size_t i) const { return forgotten + hops.size() > i; }
    // One that was started and is not over.
    const std::shared_ptr<class ThreadHop>& hop(std::size_t i) const { return hops[i - forgotten]; }
    void forget_done();
  };

  int previous(int rank) const { return (rank + world_size() - 1) % world_size(); }
  int next(int rank) const { return (rank + 1) % world_size(); }

  std::mutex mutex_;  // guards everything below, and all hops' states
  std::vector<Seat> seats_;
  std::optional<RunError> failure_;
};

// One rank's place in the ring; used by that rank's thread.
class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(ThreadRing& ring, int rank);
  ~ThreadCommunicator() override;  // waits for the copy engine to finish what was asked for

  int rank() const override { return rank_; }
  int world_size() const override { return ring_.world_size(); }
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override;

 private:
  void run_engine();

  ThreadRing& ring_;
  int rank_;
  std::thread engine_;
};

}  // namespace ringscope

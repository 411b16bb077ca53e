// Communicator between threads of one process. Each rank has a copy engine, a thread that pulls
// blocks from another rank's memory in the order in which they were asked for, whatever their way. Communication
// thus runs beside computation, as on a GPU's copy engine or NCCL's stream. (A single rank has
// nothing to copy.)
//
// It cannot deadlock, because every wait ends with what it waits for or with the failure of a rank.
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

// What the ranks of one process share. It must outlive its communicators. The memory that a rank's
// hops name must outlive its communicator, whose destructor waits for a peer that is reading it.
class ThreadRing {
 public:
  explicit ThreadRing(int world_size);

  int world_size() const { return static_cast<int>(seats_.size()); }

  // End every wait of every rank with `error`. Only the first call counts. Thread-safe.
  void fail(const RunError& error);
  // Throw the RunError that fail() was called with, if it was.
  void throw_if_failed();

 private:
  friend class ThreadCommunicator;
  friend class ThreadHop;

  // One rank's hops, numbered in the order of their start. Hops that are over on both sides are
  // forgotten, because a training run starts millions.
  struct Seat {
    std::condition_variable changed;
    std::deque<std::shared_ptr<class ThreadHop>> hops;
    std::size_t forgotten = 0;  // hops before the first in `hops`
    bool closed = false;        // no more hops will come
    int readers = 0;            // copy engines that are copying one of its blocks

    // Return whether hop i was started.
    bool has(std::size_t i) const { return forgotten + hops.size() > i; }
    // Return hop i, which was started and has not been forgotten.
    const std::shared_ptr<class ThreadHop>& hop(std::size_t i) const { return hops[i - forgotten]; }
    void forget_done();
  };

  std::mutex mutex_;  // guards everything below, and all hops' states
  std::vector<Seat> seats_;
  std::optional<RunError> failure_;
};

// One rank's place in the ring. Only that rank's thread uses it.
class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(ThreadRing& ring, int rank);
  ~ThreadCommunicator() override;  // waits for the copy engine to finish the hops asked for

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

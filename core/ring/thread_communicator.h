// Communicator between threads of one process. Each rank has a copy engine for each way that it
// uses, a thread that pulls blocks from other ranks' memory in the order in which they were asked
// for. Communication thus runs beside computation, as on a GPU's copy engine or NCCL's stream. (A
// single rank has nothing to copy.)
//
// It cannot deadlock, because every wait ends with what it waits for or with the failure of a rank.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <map>
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
class ThreadRing : public SharedFailure {
 public:
  explicit ThreadRing(int world_size);

  int world_size() const { return static_cast<int>(seats_.size()); }

  void fail(const RunError& error) override;
  void throw_if_failed() override;

 private:
  friend class ThreadCommunicator;
  friend class ThreadHop;

  // One rank's hops of one way, in the order of their start. What a rank receives from another are the
  // blocks that this one sends to it, in the same order.
  struct Hops {
    std::deque<std::shared_ptr<class ThreadHop>> started;  // and not taken up by the copy engine
    std::shared_ptr<class ThreadHop> taken;                // the last one that it took up
    // By receiver: what has not left.
    std::map<int, std::deque<std::shared_ptr<class ThreadHop>>> sends;
  };
  struct Seat {
    std::condition_variable changed;
    std::array<Hops, kWays> ways;
    bool closed = false;  // no more hops will come
    int readers = 0;      // copy engines that are copying one of its blocks
  };

  std::mutex mutex_;  // guards everything below, and all hops' states
  std::vector<Seat> seats_;
  std::optional<RunError> failure_;
};

// One rank's place in the ring. Only that rank's thread uses it.
class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(ThreadRing& ring, int rank);
  ~ThreadCommunicator() override;  // waits for the copy engines to finish the hops asked for

  int rank() const override { return rank_; }
  int world_size() const override { return ring_.world_size(); }
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override;

 private:
  void start_engine(Way way);
  void run_engine(Way way);

  ThreadRing& ring_;
  int rank_;
  std::array<std::thread, kWays> engines_;
};

}  // namespace ringscope

// One hop of a rank between MPI processes, as the thread that asked for it and the progress thread
// share it, and how waits for hops end when the run fails.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/ring/communicator.h"
#include "core/ring/watch.h"

namespace ringscope {

// What all of a process's waits for MPI have in common: how they end when the run fails.
class MpiWaits {
 public:
  // Ends every wait with `error`; the first call counts. Thread-safe. No MPI function is called any
  // more by what waited.
  void fail(const RunError& error);
  // Throws the RunError that fail() was called with, if it was.
  void throw_if_failed();

 private:
  friend class MpiCommunicator;
  friend class HopSide;
  friend class MpiHop;

  std::mutex calls_;                  // whose turn it is to call MPI; taken before mutex_
  std::mutex mutex_;                  // guards everything below, and all hops' states
  std::condition_variable happened_;  // for those who wait for hops
  std::condition_variable has_work_;  // for the progress thread
  int waiting_ = 0;                   // threads in the wait of a hop
  std::optional<RunError> failure_;
};

// A rank and those before and after it in its ring, by their numbers in MPI_COMM_WORLD.
struct MpiNeighbours {
  int self = 0, send_rank = 0, recv_rank = 0;
};

// One hop. What is not const or marked otherwise is guarded by the mutex of the waits.
class MpiHop : public PendingOperation, public std::enable_shared_from_this<MpiHop> {
 public:
  // `pulse`, which may be null, says of whoever waits for the hop that it does.
  MpiHop(MpiWaits& waits, const MpiNeighbours& neighbours, const Exchange& its_exchange,
         std::initializer_list<Completion> after, RankPulse* pulse)
      : exchange(its_exchange),
        waits_(waits),
        neighbours_(neighbours),
        pulse_(pulse),
        after_(after) {}

  bool done() const override {
    const std::lock_guard lock(waits_.mutex_);
    return is_done();
  }
  void wait() override {
    if (done()) return;
    const ShownWait shown(pulse_, shared_from_this(), neighbours_.recv_rank);
    std::unique_lock lock(waits_.mutex_);
    if (is_done()) return;
    ++waits_.waiting_;
    waits_.has_work_.notify_all();  // from now on it looks more often
    waits_.happened_.wait(lock, [&] { return is_done() || waits_.failure_; });
    --waits_.waiting_;
    if (!is_done()) throw *waits_.failure_;
  }
  TransferTimes times() const override {
    const std::lock_guard lock(waits_.mutex_);
    return times_;
  }
  TransferTimes times_so_far() const override { return times(); }
  Awaited awaited() const override;

  // The rest is called by the progress thread.

  bool is_ready();
  bool is_sent() const {
    const std::lock_guard lock(waits_.mutex_);
    return sent_;
  }
  void set_sent(std::int64_t begin, std::int64_t end, int to) {
    set(sent_, times_.send_begin, begin, times_.send_end, end, to);
  }
  void set_received(std::int64_t begin, std::int64_t end, int from) {
    set(received_, times_.recv_begin, begin, times_.recv_end, end, from);
  }

  const Exchange exchange;

 private:
  bool is_done() const { return sent_ && received_; }
  void set(bool& flag, std::int64_t& begin, std::int64_t its_begin, std::int64_t& end,
           std::int64_t its_end, int peer) {
    const std::lock_guard lock(waits_.mutex_);
    flag = true;
    begin = its_begin;
    end = its_end;
    times_.last_peer = peer;
    if (is_done()) waits_.happened_.notify_all();
  }

  MpiWaits& waits_;
  const MpiNeighbours neighbours_;
  RankPulse* const pulse_;
  std::vector<Completion> after_;
  bool sent_ = false;
  bool received_ = false;
  TransferTimes times_;
};

}  // namespace ringscope

// The connections of the ranks of this process: one per GPU and thread, or a single one when every
// rank is a process. A failure on any connection ends all of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "cuda/base/device_memory.h"
#include "cuda/nccl/nccl_connection.h"
#include "cuda/ring/device_engine.h"

namespace ringscope::cuda {

class NcclWorld {
 public:
  // Connect, with a first small hop because NCCL sets up a channel on first use. `failed_elsewhere`
  // may be empty; it throws the RunError of a run that other processes have ended. Throws RunError.
  NcclWorld(const ncclUniqueId& id, int world_size, const std::vector<RankSeat>& seats,
            const NcclLimits& limits, GiveUp failed_elsewhere = {});
  // Close in good order, or abort after a failure.
  ~NcclWorld();
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;

  int world_size() const { return world_size_; }
  NcclConnection& connection(int rank) { return *at(rank).connection; }
  int device_of(int rank) { return at(rank).device; }
  MemorySpace& memory_of(int rank) { return *at(rank).memory; }

  // End every wait of every rank of this process with `error` by aborting all connections. Only the
  // first call counts. Thread-safe.
  void fail(const RunError& error);
  // Throw the RunError that fail() was called with, or that of another process, if there is one.
  void throw_if_failed();
  // Return the monotonic time of the first failure, or the largest number when there is none. What
  // ends on a GPU after it may have been aborted.
  std::int64_t failed_at_ns() const { return failed_at_ns_; }

 private:
  struct Greeting;
  struct Place {
    int rank = 0, device = 0;
    std::unique_ptr<MemoryOfDevice> memory;
    std::unique_ptr<NcclConnection> connection;
    std::shared_ptr<Greeting> greeting = nullptr;  // only during connect()
  };
  Place& at(int rank);
  void connect(const ncclUniqueId& id, const NcclLimits& limits);
  // Call f(place) on a thread for each place, because ranks wait for each other.
  template <class F>
  void for_each_place(F&& f);
  void greet(Place& place);
  // Look for errors that NCCL meets by itself while the ranks' threads wait for their GPUs.
  void watch();
  void close() noexcept;

  int world_size_;
  bool meets_all_;
  GiveUp failed_elsewhere_, give_up_;
  std::vector<Place> places_;
  std::mutex mutex_;  // guards failure_ and the places' connections
  std::optional<RunError> failure_;
  std::atomic<std::int64_t> failed_at_ns_ = std::numeric_limits<std::int64_t>::max();
  std::atomic<bool> has_ended_ = false;
  std::thread watcher_;
};

// Throws RunError.
ncclUniqueId new_nccl_id();

}  // namespace ringscope::cuda

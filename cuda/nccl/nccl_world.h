// The connections of the ranks that live in this process: one for each GPU and thread, or a single
// one where every rank is a process. Whatever goes wrong on any of them ends all of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "cuda/base/current_device.h"
#include "cuda/nccl/nccl_connection.h"

namespace ringscope::cuda {

// A rank of this process, and its GPU.
struct NcclSeat {
  int rank = 0;
  int device = 0;
};

class NcclWorld {
 public:
  // Connects, with a first small hop: NCCL sets up a channel only when it is used. `failed_elsewhere`
  // may be empty; it throws the RunError of a run that other processes have ended. Throws RunError.
  NcclWorld(const ncclUniqueId& id, int world_size, const std::vector<NcclSeat>& seats,
            const NcclLimits& limits, GiveUp failed_elsewhere = {});
  // Closes in good order, or aborts after a failure.
  ~NcclWorld();
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;

  int world_size() const { return world_size_; }
  NcclConnection& connection(int rank) { return *at(rank).connection; }
  int device_of(int rank) { return at(rank).device; }
  MemorySpace& memory_of(int rank) { return *at(rank).memory; }

  // Ends every wait on every rank of this process with `error`, by aborting all its connections; the
  // first call counts. Thread-safe.
  void fail(const RunError& error);
  // Throws the RunError that fail() was called with, if it was, or the run's.
  void throw_if_failed();
  // The monotonic time of the first failure: what ends on a GPU from then on may have been aborted.
  // The largest number while there is none.
  std::int64_t failed_at_ns() const { return failed_at_ns_; }

 private:
  struct Greeting;
  struct Place {
    int rank = 0, device = 0;
    std::unique_ptr<MemoryOfDevice> memory;
    std::unique_ptr<NcclConnection> connection;
    std::shared_ptr<Greeting> greeting = nullptr;  // while it connects
  };
  Place& at(int rank);
  void connect(const ncclUniqueId& id, const NcclLimits& limits);
  // Calls f(place) on a thread for each place, since ranks wait for each other.
  template <class F>
  void for_each_place(F&& f);
  void greet(Place& place);
  // Looks after errors that NCCL meets by itself, while the ranks' threads wait for their GPUs.
  void watch();
  void close() noexcept;

  int world_size_;
  GiveUp failed_elsewhere_, give_up_;
  std::vector<Place> places_;
  std::mutex mutex_;  // guards failure_
  std::optional<RunError> failure_;
  std::atomic<std::int64_t> failed_at_ns_ = std::numeric_limits<std::int64_t>::max();
  std::atomic<bool> has_ended_ = false;
  std::thread watcher_;
};

// Throws RunError.
ncclUniqueId new_nccl_id();

}  // namespace ringscope::cuda

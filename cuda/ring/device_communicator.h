// Completions on a device. The host goes on as soon as work is enqueued; it is streams that wait,
// by events.
#pragma once

#include <cuda_runtime.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/ring/seams.h"
#include "cuda/base/current_device.h"
#include "cuda/base/stream.h"
#include "cuda/ring/device_clock.h"

namespace ringscope::cuda {

class DeviceCompletion : public PendingOperation {
 public:
  // Lets work that is enqueued on `stream` from now on start after it. Blocks the host at most
  // until a peer has asked for its half of a hop, never for work on the device. Throws RunError.
  virtual void hold(cudaStream_t stream) = 0;
};

// The end of what was enqueued on a stream so far.
class EventCompletion : public DeviceCompletion {
 public:
  explicit EventCompletion(cudaStream_t stream) : event_(EventKind::untimed) {
    event_.record(stream);
  }

  bool done() const override { return event_.done(); }
  void wait() override { event_.wait(); }
  TransferTimes times() const override { return {}; }
  void hold(cudaStream_t stream) override { event_.hold(stream); }

 private:
  Event event_;
};

// Lets later work on `stream` start after `completion`. One that is no device's is waited for here.
inline void wait_on(cudaStream_t stream, const Completion& completion) {
  if (completion == nullptr) return;
  if (const auto on_device = std::dynamic_pointer_cast<DeviceCompletion>(completion)) {
    on_device->hold(stream);
  } else {
    completion->wait();
  }
}

// ---
// Communicator between ranks of one process: virtual ranks on one device, or ranks on the devices of
// one machine, whose blocks the copy engines move (cudaMemcpyPeerAsync), without a kernel. A hop is
// two halves, a send and a receive; hop i of a rank receives what hop i of the previous rank sends.
// When both halves have been asked for, and everything that they come after is in some stream, the
// copy is enqueued on the receiver's copy stream, behind the events of both sides. So copies run
// beside kernels, and no host thread waits for a device.
//
// No deadlock by design: streams only wait for events that are recorded already, and every wait of
// a host thread ends either with its peer's half or with the failure of some rank.

// One hop of one rank, completed when its block has arrived and its own has been read. Its members
// but times() are guarded by the ring's mutex.
class DeviceHop;

// What the ranks share. Must outlive its communicators and their completions; the memory
// that hops name must live until their copies are over, also after a failure.
class DeviceRing {
 public:
  // Rank r is on device r mod `devices`. Devices that can reach each other's memory directly are let
  // do so. Throws CudaError.
  explicit DeviceRing(int world_size, int devices = 1);

  int world_size() const { return static_cast<int>(seats_.size()); }
  int device_of(int rank) const { return rank % static_cast<int>(places_.size()); }
  MemorySpace& memory_of(int rank) { return place_of(rank).memory; }
  const DeviceClock& clock(int rank) const { return place_of(rank).clock; }

  // Ends every wait of every rank with `error`; the first call counts. Thread-safe.
  void fail(const RunError& error);
  // Throws the RunError that fail() was called with, if it was.
  void throw_if_failed();

 private:
  friend class DeviceCommunicator;
  friend class DeviceHop;

  // What belongs to a device.
  struct Place {
    explicit Place(int device) : memory(device) {}
    MemoryOfDevice memory;
    DeviceClock clock;
  };
  struct Seat {
    Stream copies{StreamPriority::high};
    std::vector<std::shared_ptr<DeviceHop>> hops;  // in the order they were asked for
    std::size_t received = 0;                      // hops whose receive is in the stream
  };

  Place& place_of(int rank) { return *places_[static_cast<std::size_t>(device_of(rank))]; }
  const Place& place_of(int rank) const {
    return *places_[static_cast<std::size_t>(device_of(rank))];
  }
  void let_reach(int device, int other);
  int previous(int rank) const { return (rank + world_size() - 1) % world_size(); }
  int next(int rank) const { return (rank + 1) % world_size(); }
  // Enqueues every copy that can be. The mutex is held.
  void enqueue_copies();
  bool enqueue_next_copy(int rank);

  std::vector<std::unique_ptr<Place>> places_;  // by device
  std::mutex mutex_;                            // guards everything below, and all hops' states
  std::condition_variable changed_;
  std::vector<Seat> seats_;
  std::optional<RunError> failure_;
};

// One rank's place in the ring; used by that rank's thread.
class DeviceCommunicator : public Communicator {
 public:
  DeviceCommunicator(DeviceRing& ring, int rank) : ring_(ring), rank_(rank) {}

  int rank() const override { return rank_; }
  int world_size() const override { return ring_.world_size(); }
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override;

 private:
  DeviceRing& ring_;
  int rank_;
};

}  // namespace ringscope::cuda

// A device's clock, completions on a device, and the communicator between the GPUs of one process.
// The host goes on as soon as work is enqueued; streams do the waiting, by events.
#pragma once

#include <cuda_runtime.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/ring/seams.h"
#include "cuda/base/device_memory.h"
#include "cuda/base/stream.h"

namespace ringscope::cuda {

// ---
// Converts event times to the host's monotonic clock. Events only know how far apart they are, so
// one event is tied to the host's clock before a run and all others are measured from it.

// Thread-safe.
class DeviceClock {
 public:
  // Tie an event to the clock, which takes a few round trips to the device. Throws CudaError.
  DeviceClock();

  // Return the time of a timed event that has happened. The order of events is preserved.
  std::int64_t monotonic_ns(const Event& event) const;

  // Return how far monotonic_ns may be off for events until now. It adds the round trips'
  // uncertainty, the drift of the clocks since, and the last digit of the distance (a float).
  std::int64_t error_ns() const;

 private:
  // An event that happened within half_width_ns of host_ns.
  struct Anchor {
    Event event;
    std::int64_t host_ns = 0;
    std::int64_t half_width_ns = 0;
  };
  Anchor take_anchor() const;

  Stream stream_;
  Anchor anchor_;
};

// ---
// Completions on a device.

class DeviceCompletion : public PendingOperation {
 public:
  // Make later work on `stream` start after this operation. Blocks the host at most until a peer
  // has asked for its half of a hop, never for work on the device. Throws RunError.
  virtual void hold(cudaStream_t stream) = 0;
  // Return whether it is in a stream. Of hops, the caller of both holds the ring's mutex.
  virtual bool is_enqueued() const { return true; }
  virtual void hold_enqueued(cudaStream_t stream) { hold(stream); }
};

// Completes when everything that was enqueued on a stream so far has finished.
class EventCompletion : public DeviceCompletion {
 public:
  EventCompletion(Event event, cudaStream_t stream) : event_(std::move(event)) {
    event_.record(stream);
  }

  const Event& event() const { return event_; }
  bool done() const override { return event_.done(); }
  void wait() override { event_.wait(); }
  TransferTimes times() const override { return {}; }
  void hold(cudaStream_t stream) override { event_.hold(stream); }

 private:
  Event event_;
};

// Make later work on `stream` start after `completion`. A completion on the host blocks here.
inline void wait_on(cudaStream_t stream, const Completion& completion) {
  if (completion == nullptr) return;
  if (const auto on_device = std::dynamic_pointer_cast<DeviceCompletion>(completion)) {
    on_device->hold(stream);
  } else {
    completion->wait();
  }
}

// ---
// A Communicator between ranks of one process: virtual ranks on one device, or ranks on several
// devices of one machine. The copy engines move the blocks (cudaMemcpyPeerAsync) without a kernel.
// A hop has two halves, a send and a receive; hop i of a rank receives what hop i of the rank that
// it names, in a ring the previous one, sends. When both halves have been asked for and everything
// they must follow is in some stream, the copy is enqueued on the receiver's copy stream, behind the
// events of both sides. So copies run beside kernels, and no host thread waits for a device.
//
// Deadlock is impossible, because streams only wait for events that are already recorded, and every
// wait of a host thread ends with its peer's half or with the failure of some rank.

// One hop of one rank. It completes when its block has arrived and its own block has been read. The
// ring's mutex guards all members but times().
class DeviceHop;

// State that the ranks share. It must outlive its communicators and their completions. The memory
// that hops name must live until their copies are over, also after a failure.
class DeviceRing {
 public:
  // Put rank r on device r mod `devices`, and enable direct access between devices that can reach
  // each other's memory. Throws CudaError.
  explicit DeviceRing(int world_size, int devices = 1);

  int world_size() const { return static_cast<int>(seats_.size()); }
  int device_of(int rank) const { return rank % static_cast<int>(places_.size()); }
  MemorySpace& memory_of(int rank) { return place_of(rank).memory; }
  const DeviceClock& clock(int rank) const { return place_of(rank).clock; }

  // End every wait of every rank with `error`. Only the first call counts. Thread-safe.
  void fail(const RunError& error);
  // Throw the RunError that fail() was called with, if it was called.
  void throw_if_failed();

 private:
  friend class DeviceCommunicator;
  friend class DeviceHop;

  // The state of one device.
  struct Place {
    explicit Place(int device) : memory(device) {}
    MemoryOfDevice memory;
    DeviceClock clock;
  };
  struct Seat {
    Stream copies{StreamPriority::high};
    std::vector<std::shared_ptr<DeviceHop>> hops;  // in the order of the requests
    std::size_t received = 0;                      // number of hops whose receive is in the stream
    std::vector<Event> events = {};                // for copies
  };

  Place& place_of(int rank) { return *places_[device_of(rank)]; }
  const Place& place_of(int rank) const { return *places_[device_of(rank)]; }
  void let_reach(int device, int other);
  // Enqueue every copy that is ready. The caller holds the mutex.
  void enqueue_copies();
  bool enqueue_next_copy(int rank);

  std::vector<std::unique_ptr<Place>> places_;  // by device
  std::mutex mutex_;                            // guards everything below, and all hops' states
  std::condition_variable changed_;
  std::vector<Seat> seats_;
  std::optional<RunError> failure_;
};

// One rank's place in the ring. Only that rank's thread uses it.
class DeviceCommunicator : public Communicator {
 public:
  // Make the events of as many hops. Throws CudaError.
  DeviceCommunicator(DeviceRing& ring, int rank, std::size_t hops = 0);

  int rank() const override { return rank_; }
  int world_size() const override { return ring_.world_size(); }
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override;

 private:
  DeviceRing& ring_;
  int rank_;
};

}  // namespace ringscope::cuda

#include "cuda/ring/device_communicator.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "core/base/error.h"
#include "core/ring/ring.h"
#include "core/trace/recorder.h"
#include "cuda/base/stream.h"

namespace ringscope::cuda {

DeviceClock::DeviceClock() : anchor_(take_anchor()) {}

DeviceClock::Anchor DeviceClock::take_anchor() const {
  // Keep the tightest of a few anchors, because the first ones also wake the device up.
  Anchor best;
  best.half_width_ns = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < 8; ++i) {
    Anchor anchor;
    const std::int64_t before = ringscope::monotonic_ns();
    anchor.event.record(stream_.get());
    anchor.event.wait();
    const std::int64_t after = ringscope::monotonic_ns();
    anchor.host_ns = before + (after - before) / 2;
    anchor.half_width_ns = (after - before + 1) / 2;
    if (anchor.half_width_ns < best.half_width_ns) best = std::move(anchor);
  }
  return best;
}

std::int64_t DeviceClock::monotonic_ns(const Event& event) const {
  return anchor_.host_ns + std::llround(static_cast<double>(event.ms_since(anchor_.event)) * 1e6);
}

std::int64_t DeviceClock::error_ns() const {
  const Anchor now = take_anchor();
  const std::int64_t apart = std::abs(monotonic_ns(now.event) - now.host_ns);
  const double distance_ns = static_cast<double>(now.host_ns - anchor_.host_ns);
  constexpr double kResolutionNs = 500;  // resolution of events
  return anchor_.half_width_ns + now.half_width_ns + apart +
         std::llround(kResolutionNs + distance_ns * std::numeric_limits<float>::epsilon());
}

namespace {

// A copy in a stream, enclosed by two events of the receiver's device.
struct Copy {
  Event begin, end;
};

}  // namespace

class DeviceHop : public DeviceCompletion {
 public:
  DeviceHop(DeviceRing& ring, int rank, const Exchange& exchange)
      : ring_(ring), rank_(rank), exchange_(exchange) {}

  bool done() const override {
    const std::lock_guard lock(ring_.mutex_);
    return is_enqueued() && (in_ == nullptr || in_->end.done()) &&
           (out_ == nullptr || out_->end.done());
  }
  void wait() override {
    wait_until_enqueued();
    with_step_in_errors(rank_, exchange_.step, [&] {
      if (in_ != nullptr) in_->end.wait();
      if (out_ != nullptr) out_->end.wait();
    });
  }
  Awaited awaited() const override { return {exchange_.receives() ? from() : to(), -1}; }
  void hold(cudaStream_t stream) override {
    wait_until_enqueued();
    hold_enqueued(stream);
  }
  TransferTimes times() const override {
    TransferTimes times;
    with_step_in_errors(rank_, exchange_.step, [&] {
      if (out_ != nullptr) {
        const DeviceClock& receivers = ring_.clock(to());
        times.send_begin = receivers.monotonic_ns(out_->begin);
        times.send_end = receivers.monotonic_ns(out_->end);
      }
      if (in_ != nullptr) {
        const DeviceClock& mine = ring_.clock(rank_);
        times.recv_begin = mine.monotonic_ns(in_->begin);
        times.recv_end = mine.monotonic_ns(in_->end);
      }
    });
    times.last_peer = times.recv_end >= times.send_end ? from() : to();
    return times;
  }

 private:
  friend class DeviceRing;
  friend class DeviceCommunicator;

  int to() const { return exchange_.receiver(rank_, ring_.world_size()); }
  int from() const { return exchange_.sender(rank_, ring_.world_size()); }
  bool is_enqueued() const override {
    return (in_ != nullptr || !exchange_.receives()) && (out_ != nullptr || !exchange_.sends());
  }
  void hold_enqueued(cudaStream_t stream) override {
    if (in_ != nullptr) in_->end.hold(stream);
    if (out_ != nullptr) out_->end.hold(stream);
  }
  // After this call the two copies no longer change, so they can be read without the mutex.
  void wait_until_enqueued() {
    std::unique_lock lock(ring_.mutex_);
    ring_.changed_.wait(lock, [&] { return is_enqueued() || ring_.failure_; });
    if (!is_enqueued()) throw *ring_.failure_;
  }

  // Whether everything that this half must follow is already in some stream.
  bool is_ready() const {
    return std::all_of(after_.begin(), after_.end(),
                       [](const auto& a) { return a->is_enqueued(); });
  }
  void hold_after(cudaStream_t stream) {
    for (const auto& earlier : after_) earlier->hold_enqueued(stream);
  }

  DeviceRing& ring_;
  int rank_;
  Exchange exchange_;
  std::vector<std::shared_ptr<DeviceCompletion>> after_;
  std::shared_ptr<Copy> in_, out_;  // null until they are enqueued
};

DeviceRing::DeviceRing(int world_size, int devices) {
  for (int device = 0; device < devices; ++device) {
    const CurrentDevice current(device);
    places_.push_back(std::make_unique<Place>(device));
  }
  for (int rank = 0; rank < world_size; ++rank) {
    const CurrentDevice current(device_of(rank));
    seats_.emplace_back();
  }
  for (int device = 0; device < devices; ++device)
    for (int other = 0; other < devices; ++other)
      if (device != other) let_reach(device, other);
}

// Without peer access a copy goes through host memory.
void DeviceRing::let_reach(int device, int other) {
  int can = 0;
  RINGSCOPE_CUDA(cudaDeviceCanAccessPeer(&can, device, other));
  if (can == 0) return;
  const CurrentDevice current(device);
  const cudaError_t status = cudaDeviceEnablePeerAccess(other, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled || status == cudaErrorTooManyPeers) {
    static_cast<void>(cudaGetLastError());
  } else {
    RINGSCOPE_CUDA(status);
  }
}

void DeviceRing::fail(const RunError& error) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = error;
  changed_.notify_all();
}

void DeviceRing::throw_if_failed() {
  const std::lock_guard lock(mutex_);
  if (failure_) throw *failure_;
}

// One enqueued copy may make others ready, so repeat until none is.
void DeviceRing::enqueue_copies() {
  bool more = true;
  while (more) {
    more = false;
    for (int rank = 0; rank < world_size(); ++rank) more = enqueue_next_copy(rank) || more;
  }
  changed_.notify_all();
}

bool DeviceRing::enqueue_next_copy(int rank) {
  Seat& mine = seats_[rank];
  const std::size_t i = mine.received;
  if (mine.hops.size() <= i) return false;
  DeviceHop& receive = *mine.hops[i];
  if (!receive.exchange_.receives()) {
    ++mine.received;
    return true;
  }
  const int from = receive.from();
  Seat& theirs = seats_[from];
  if (theirs.hops.size() <= i) return false;
  DeviceHop& send = *theirs.hops[i];
  if (!receive.is_ready() || !send.is_ready()) return false;

  const Exchange& in = receive.exchange_;
  const Exchange& out = send.exchange_;
  if (in.recv_bytes != out.send_bytes || in.recv_owner != out.send_owner ||
      in.payload != out.payload || !out.sends() || send.to() != rank)
    throw RunError("rank " + std::to_string(rank) + " expected " + std::to_string(in.recv_bytes) +
                       " bytes of owner " + std::to_string(in.recv_owner) + ", rank " +
                       std::to_string(from) + " sent " + std::to_string(out.send_bytes) +
                       " bytes of owner " + std::to_string(out.send_owner),
                   rank, in.step);
  // The calling thread may belong to another rank at another step.
  with_step_in_errors(rank, in.step, [&] {
    const Range range("copy");
    const CurrentDevice current(device_of(rank));
    const cudaStream_t stream = mine.copies.get();
    receive.hold_after(stream);
    send.hold_after(stream);
    const auto copy =
        std::make_shared<Copy>(Copy{take_event(mine.events), take_event(mine.events)});
    copy->begin.record(stream);
    const auto bytes = static_cast<std::size_t>(in.recv_bytes);
    if (bytes > 0)
      RINGSCOPE_CUDA(
          cudaMemcpyPeerAsync(in.recv, device_of(rank), out.send, device_of(from), bytes, stream));
    copy->end.record(stream);
    receive.in_ = copy;
    send.out_ = copy;
  });
  ++mine.received;
  // Release what a finished hop came after, because hops would otherwise keep each other alive in
  // one long chain.
  for (DeviceHop* hop : {&receive, &send})
    if (hop->is_enqueued()) hop->after_.clear();
  return true;
}

DeviceCommunicator::DeviceCommunicator(DeviceRing& ring, int rank, std::size_t hops)
    : ring_(ring), rank_(rank) {
  ring.seats_[rank].events = std::vector<Event>(2 * hops);
}

Completion DeviceCommunicator::exchange(const Exchange& hop,
                                        std::initializer_list<Completion> after) {
  const Range range("exchange");
  auto asked = std::make_shared<DeviceHop>(ring_, rank_, hop);
  for (const Completion& earlier : after) {
    if (auto on_device = std::dynamic_pointer_cast<DeviceCompletion>(earlier)) {
      asked->after_.push_back(std::move(on_device));
    } else {
      wait_for(earlier);
    }
  }
  const std::lock_guard lock(ring_.mutex_);
  if (ring_.failure_) throw *ring_.failure_;
  ring_.seats_[rank_].hops.push_back(asked);
  ring_.enqueue_copies();
  return asked;
}

}  // namespace ringscope::cuda

// The buffer that one rank records into. It is allocated before the run, and recording an event
// only copies it there, without a lock, an allocation or a system call. When the buffer is full,
// further events are dropped and counted, and the writer says so. While the rank records, another
// thread may copy what is there, because nothing that has been counted moves or changes.
#pragma once

#include <atomic>
#include <vector>

#include "core/base/clock.h"
#include "core/trace/event.h"

namespace ringscope {

// A slice that goes on ends at this time until whoever copies it puts the present in its place.
inline constexpr std::int64_t kGoesOn = INT64_MAX;

// A rank's recorder. Only one thread at a time may use it, except for the functions that say
// "so far", which any thread may call.
class Recorder {
 public:
  // `origin_ns` is the monotonic time that becomes 0 in the recording.
  Recorder(std::size_t max_events, std::size_t max_samples, std::int64_t origin_ns)
      : origin_ns_(origin_ns) {
    events_.reserve(max_events);
    samples_.reserve(max_samples);
  }

  std::int64_t now_ns() const { return monotonic_ns() - origin_ns_; }
  std::int64_t origin_ns() const { return origin_ns_; }

  void record(const TraceEvent& event) noexcept { keep(event, events_, event_count_); }
  void record(const SoftmaxSample& sample) noexcept { keep(sample, samples_, sample_count_); }

  // Note that `slice`, with its lane, pass, payload, step, owner and begin, has begun.
  void begin(const TraceEvent& slice) noexcept {
    const auto bits = [](auto value) { return static_cast<std::uint64_t>(value); };
    open_what_.store(bits(slice.lane) | bits(slice.pass) << 2 | bits(slice.payload) << 3 |
                         bits(slice.step) << 4 | bits(slice.kv_owner) << 34,
                     std::memory_order_release);
    open_since_.store(slice.begin_ns, std::memory_order_release);
  }
  // Record the slice that has begun, which is over.
  void end(const TraceEvent& slice) noexcept {
    record(slice);
    open_since_.store(kGoesOn, std::memory_order_release);
  }

  // Keep what a kernel stamped, once nothing is recorded any more.
  void record(const KernelSpan& span) { kernel_.push_back(span); }
  void drop_stamps(std::int64_t count) { dropped_stamps_ += count; }
  const std::vector<KernelSpan>& kernel() const { return kernel_; }
  std::int64_t dropped_stamps() const { return dropped_stamps_; }

  const std::vector<TraceEvent>& events() const { return events_; }
  const std::vector<SoftmaxSample>& samples() const { return samples_; }

  // Return the recorded events and, at the end, the slice that has begun, if there is one.
  std::vector<TraceEvent> events_so_far() const {
    const std::int64_t since = open_since_.load(std::memory_order_acquire);
    const std::uint64_t what = open_what_.load(std::memory_order_acquire);
    // If the time is the same before and after, `what` belongs to it.
    const bool is_open = since != kGoesOn && open_since_.load(std::memory_order_acquire) == since;
    std::vector<TraceEvent> copy = copy_of(events_, event_count_);
    const auto field = [what](int at, std::uint64_t mask) { return what >> at & mask; };
    TraceEvent open{.lane = static_cast<Lane>(field(0, 3)),
                    .pass = static_cast<Pass>(field(2, 1)),
                    .payload = static_cast<Payload>(field(3, 1)),
                    .step = static_cast<std::int32_t>(field(4, kMostPlace)),
                    .kv_owner = static_cast<std::int32_t>(field(34, kMostPlace)),
                    .begin_ns = since,
                    .end_ns = kGoesOn};
    // It may have been recorded meanwhile.
    auto last = copy.rbegin();
    while (last != copy.rend() && (last->lane != open.lane || last->begin_ns > since)) ++last;
    if (is_open && (last == copy.rend() || last->begin_ns < since)) copy.push_back(open);
    return copy;
  }
  std::vector<SoftmaxSample> samples_so_far() const { return copy_of(samples_, sample_count_); }
  std::int64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint64_t kMostPlace = (1u << 30) - 1;  // of a step or a rank

  template <class T>
  void keep(const T& item, std::vector<T>& list, std::atomic<std::size_t>& count) noexcept {
    const std::size_t size = count.load(std::memory_order_relaxed);
    if (size < list.capacity()) {
      list.push_back(item);
      count.store(size + 1, std::memory_order_release);
    } else {
      dropped_.store(dropped() + 1, std::memory_order_relaxed);
    }
  }
  // Return the items that were counted. They stay in their place, because the list never grows
  // beyond what was allocated for it.
  template <class T>
  static std::vector<T> copy_of(const std::vector<T>& list, const std::atomic<std::size_t>& count) {
    return {list.data(), list.data() + count.load(std::memory_order_acquire)};
  }

  std::int64_t origin_ns_;
  std::vector<TraceEvent> events_;
  std::vector<SoftmaxSample> samples_;
  std::vector<KernelSpan> kernel_;
  std::int64_t dropped_stamps_ = 0;
  std::atomic<std::size_t> event_count_ = 0, sample_count_ = 0;
  std::atomic<std::int64_t> dropped_ = 0;
  std::atomic<std::uint64_t> open_what_ = 0;
  std::atomic<std::int64_t> open_since_ = kGoesOn;  // kGoesOn: nothing has begun
};

}  // namespace ringscope

// The buffer that one rank records into. It is allocated before the run, and recording an event
// only copies it there, without a lock, an allocation or a system call. When the buffer is full,
// further events are dropped and counted, and the writer says so.
#pragma once

#include <chrono>
#include <vector>

#include "core/trace/event.h"

namespace ringscope {

// Return the monotonic clock's nanoseconds. One clock serves all ranks of a process.
inline std::int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Return the seconds since monotonic_ns() was `begin_ns`.
inline double seconds_since(std::int64_t begin_ns) {
  return static_cast<double>(monotonic_ns() - begin_ns) * 1e-9;
}

// A rank's recorder. Only one thread at a time may use it.
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

  void record(const TraceEvent& event) noexcept {
    if (events_.size() < events_.capacity()) {
      events_.push_back(event);
    } else {
      ++dropped_;
    }
  }
  void record(const SoftmaxSample& sample) noexcept {
    if (samples_.size() < samples_.capacity()) {
      samples_.push_back(sample);
    } else {
      ++dropped_;
    }
  }

  const std::vector<TraceEvent>& events() const { return events_; }
  const std::vector<SoftmaxSample>& samples() const { return samples_; }
  std::vector<SoftmaxSample>& samples() { return samples_; }
  std::int64_t dropped() const { return dropped_; }

 private:
  std::int64_t origin_ns_;
  std::vector<TraceEvent> events_;
  std::vector<SoftmaxSample> samples_;
  std::int64_t dropped_ = 0;
};

}  // namespace ringscope

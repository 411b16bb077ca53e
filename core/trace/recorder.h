// The buffer that one rank records into. It is allocated before the run, and recording an event
// only copies it there, without a lock, an allocation or a system call. When the buffer is full,
// further events are dropped and counted, and the writer says so.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/trace/event.h"

namespace ringscope {

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

  void record(const TraceEvent& event) noexcept { keep(event, events_); }
  void record(const SoftmaxSample& sample) noexcept { keep(sample, samples_); }

  // Keep what a kernel stamped, once nothing is recorded any more.
  void record(const KernelSpan& span) { kernel_.push_back(span); }
  void drop_stamps(std::int64_t count) { dropped_stamps_ += count; }
  // Keep the numbers of a tile, which are few and taken once.
  void record(RecordedTile tile) { tile_ = std::move(tile); }
  std::optional<RecordedTile>& tile() { return tile_; }
  const std::optional<RecordedTile>& tile() const { return tile_; }
  const std::vector<KernelSpan>& kernel() const { return kernel_; }
  std::int64_t dropped_stamps() const { return dropped_stamps_; }

  const std::vector<TraceEvent>& events() const { return events_; }
  const std::vector<SoftmaxSample>& samples() const { return samples_; }

  std::int64_t dropped() const { return dropped_; }

 private:
  template <class T>
  void keep(const T& item, std::vector<T>& list) noexcept {
    if (list.size() < list.capacity())
      list.push_back(item);
    else
      ++dropped_;
  }

  std::int64_t origin_ns_;
  std::vector<TraceEvent> events_;
  std::vector<SoftmaxSample> samples_;
  std::vector<KernelSpan> kernel_;
  std::optional<RecordedTile> tile_;
  std::int64_t dropped_stamps_ = 0;
  std::int64_t dropped_ = 0;
};

}  // namespace ringscope

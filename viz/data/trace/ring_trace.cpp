#include "viz/data/trace/ring_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/trace/chrome_trace.h"

namespace ringscope::viz {
namespace {

constexpr std::size_t kLanes = std::size(kAllLanes);

std::vector<int> all_ranks(std::size_t world_size) {
  std::vector<int> ranks(world_size);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

Slice slice_of(const ModelSpan& span) {
  Slice slice = plain_slice();
  slice.lane = span.bytes > 0 ? Kind::communication : Kind::other;
  slice.pass = span.pass;
  slice.part = static_cast<std::int8_t>(span.part);
  slice.begin_ns = span.begin_ns;
  slice.end_ns = span.end_ns;
  slice.bytes = span.bytes;
  return slice;
}

Slice slice_of(const KernelSpan& span) {
  Slice slice = plain_slice();
  slice.pass = span.pass;
  slice.part = part_of(span.part);
  slice.step = span.step;
  slice.begin_ns = span.begin_ns;
  slice.end_ns = span.end_ns;
  return slice;
}

void notice_what_is_missing(const Recording& recording, Trace& trace) {
  const auto notice = [&](std::string_view what, std::string_view whose,
                          const std::vector<std::int64_t>& counts) {
    std::int64_t sum = 0;
    for (const std::int64_t count : counts) sum = saturating_sum(sum, count);
    if (sum > 0)
      trace.notices.push_back(fmt::format("{} {}{} found the {} buffer full and {} missing", sum,
                                          what, sum == 1 ? "" : "s", whose,
                                          sum == 1 ? "is" : "are"));
  };
  notice("event", "recorder's", recording.dropped);
  notice("stamp", "kernel's", recording.info.dropped_stamps);
}

// Give each wait the step and the block of what its rank attends next in the pass, or none where nothing
// follows. Recordings of earlier versions say of which hop the wait was.
void settle_waits(const std::vector<Slice>& computed, std::vector<Slice>& waits) {
  std::vector<const Slice*> by_begin[2];  // by pass
  for (const Slice& slice : computed)
    by_begin[static_cast<std::size_t>(slice.pass)].push_back(&slice);
  for (auto& slices : by_begin)
    std::stable_sort(slices.begin(), slices.end(),
                     [](const Slice* a, const Slice* b) { return a->begin_ns < b->begin_ns; });
  for (Slice& wait : waits) {
    const auto& slices = by_begin[static_cast<std::size_t>(wait.pass)];
    const auto next = std::partition_point(slices.begin(), slices.end(), [&](const Slice* slice) {
      return slice->begin_ns < wait.end_ns;
    });
    wait.step = next == slices.end() ? -1 : (*next)->step;
    wait.kv_owner = next == slices.end() ? -1 : (*next)->kv_owner;
  }
}

// Makes rank after rank of a trace, and gives up the recording's events on the way.
class RingTrace {
 public:
  RingTrace(Recording recording, const std::vector<RecordedMessage>& messages)
      : recording_(std::move(recording)) {
    notice_what_is_missing(recording_, trace_);
    for (auto& events : recording_.events)
      for (TraceEvent& e : events) e.flow = 0;
    trace_.flows.resize(messages.size());
    for (std::size_t i = 0; i < messages.size(); ++i)
      for (const RecordedMessage::End& end : {messages[i].send, messages[i].recv})
        recording_.events[end.rank][end.index].flow = static_cast<std::int64_t>(i) + 1;
  }

  void add(int rank) {
    trace_.ranks.push_back({.pid = rank,
                            .name = fmt::format("rank {}", rank),
                            .first_lane = static_cast<std::uint32_t>(trace_.lanes.size())});
    const auto r = static_cast<std::size_t>(rank);
    std::vector<Slice> lanes[kLanes];
    std::size_t counts[kLanes] = {};
    for (const TraceEvent& e : recording_.events[r]) ++counts[static_cast<std::size_t>(e.lane)];
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane].reserve(counts[lane]);
    for (TraceEvent& e : recording_.events[r]) {
      e.name = name_of(e);
      lanes[static_cast<std::size_t>(e.lane)].push_back(e);
    }
    recording_.events[r] = {};
    if (recording_.info.is_whole())
      settle_waits(lanes[static_cast<std::size_t>(Kind::compute)],
                   lanes[static_cast<std::size_t>(Kind::wait)]);
    for (const ringscope::Lane lane : kAllLanes)
      append(static_cast<int>(lane), ringscope::name_of(lane),
             std::move(lanes[static_cast<std::size_t>(lane)]));
    std::map<int, std::vector<Slice>> others;
    const auto add_spans = [&](const auto& spans, auto&& tid_of) {
      if (spans.empty()) return;
      for (const auto& span : spans[r]) {
        Slice& slice = others[tid_of(span)].emplace_back(slice_of(span));
        slice.name = names_.number_of(title_of(span));
      }
    };
    if (!recording_.model.empty()) others[kModelTid];
    add_spans(recording_.model, [](const ModelSpan&) { return kModelTid; });
    add_spans(recording_.kernel, [](const KernelSpan& span) { return span.tid(); });
    for (auto& [tid, slices] : others)
      append(tid, tid == kModelTid ? std::string(kModelLane) : lane_of_kernel(tid),
             std::move(slices));
  }

  Trace finish(std::string path) {
    for (std::uint32_t row = 0; row < trace_.rows.size(); ++row)
      for (std::uint32_t i = 0; i < trace_.rows[row].slices.size(); ++i)
        if (const Slice& slice = trace_.rows[row].slices[i]; slice.flow != 0) {
          Flow& flow = trace_.flows[static_cast<std::size_t>(slice.flow) - 1];
          (slice.lane == Kind::send ? flow.from : flow.to) = {row, i};
        }
    trace_.path = std::move(path);
    trace_.run = std::move(recording_.info);
    trace_.samples = std::move(recording_.samples);
    trace_.story = std::move(recording_.story);
    trace_.kernel = std::move(recording_.kernel);
    trace_.names = names_.take();
    measure_extent(trace_);
    return std::move(trace_);
  }

 private:
  // Return the number of an event's title, which is written once for all events that have it.
  std::uint32_t name_of(const TraceEvent& e) {
    const auto bits = [](auto value) { return static_cast<std::uint64_t>(value); };
    const std::uint64_t key = bits(e.lane) | bits(e.pass) << 3 | bits(e.payload) << 4 |
                              bits(e.lane == Kind::wait ? e.waiting_for : e.kv_owner) << 5;
    const auto [known, is_new] = titles_.try_emplace(key);
    if (is_new) known->second = names_.number_of(title_of(e));
    return known->second;
  }

  void append(int tid, std::string_view name, std::vector<Slice> slices) {
    std::int64_t overlap = -1;
    auto rows = rows_of(std::move(slices), &overlap);
    if (overlap >= 0)
      throw InputError(fmt::format(
          "ts: the slice of {} that begins at {} ns on lane {} lies half over an earlier one; "
          "slices that nest or don't overlap accepted",
          trace_.ranks.back().name, overlap, name));
    append_lane(trace_, trace_.ranks.size() - 1, tid, std::string(name), std::move(rows));
  }

  Recording recording_;
  Trace trace_;
  NameTable names_;
  std::unordered_map<std::uint64_t, std::uint32_t> titles_;
};

Trace trace_of_ranks(Recording recording, const std::vector<RecordedMessage>& messages,
                     const std::vector<int>& ranks, std::string path) {
  RingTrace trace(std::move(recording), messages);
  for (const int rank : ranks) trace.add(rank);
  return trace.finish(std::move(path));
}

}  // namespace

Trace to_trace(Recording recording, const std::vector<RecordedMessage>& messages,
               std::string path) {
  const std::vector<int> ranks = all_ranks(recording.events.size());
  return trace_of_ranks(std::move(recording), messages, ranks, std::move(path));
}

Trace to_trace(Recording recording, std::string path) {
  const std::vector<RecordedMessage> messages = messages_of(recording);
  return to_trace(std::move(recording), messages, std::move(path));
}

Trace sample_trace(Recording recording, const std::vector<int>& ranks, std::string path) {
  std::vector<std::vector<TraceEvent>> kept(recording.events.size());
  for (const int rank : ranks)
    kept[static_cast<std::size_t>(rank)] =
        std::move(recording.events[static_cast<std::size_t>(rank)]);
  recording.events = std::move(kept);
  recording.samples.clear();
  const std::vector<RecordedMessage> messages = messages_of(recording);
  return trace_of_ranks(std::move(recording), messages, ranks, std::move(path));
}

}  // namespace ringscope::viz

#include "core/trace/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "core/base/error.h"
#include "core/base/ranges.h"
#include "core/trace/chrome_trace.h"

namespace ringscope {

const KernelSpan* kernel_span(const Trace& trace, SliceId id) {
  const TraceEvent& slice = trace.slice(id);
  const auto part = kernel_part(slice);
  const TraceLane& lane = trace.lanes[trace.rows[id.row].lane];
  if (!part || lane.rank >= trace.kernel.size()) return nullptr;
  for (const KernelSpan& span : trace.kernel[lane.rank])
    if (span.tid() == lane.tid && span.part == *part && span.begin_ns == slice.begin_ns &&
        span.end_ns == slice.end_ns)
      return &span;
  return nullptr;
}

std::string words_of(const std::vector<ProfiledLayer>& layers, std::size_t which) {
  const std::string layer = fmt::format("layer {}", layers[which].layer);
  return layers.back().iteration == 0
             ? layer
             : fmt::format("{} of iteration {}", layer, layers[which].iteration);
}

namespace {

// Of slices that begin at once, the longest contains the others, except those that take no time,
// which come before it.
bool comes_before(const TraceEvent& a, const TraceEvent& b) {
  if (a.begin_ns != b.begin_ns) return a.begin_ns < b.begin_ns;
  if (a.duration_ns() == 0 || b.duration_ns() == 0)
    return a.duration_ns() == 0 && b.duration_ns() != 0;
  return a.end_ns > b.end_ns;
}

constexpr std::size_t kRingLanes = std::size(kAllLanes);

TraceEvent slice_of_span(const ModelSpan& span) {
  TraceEvent slice = plain_slice();
  slice.lane = span.bytes > 0 ? Lane::communication : Lane::other;
  slice.pass = span.pass;
  slice.part = static_cast<std::int8_t>(span.part);
  slice.begin_ns = span.begin_ns;
  slice.end_ns = span.end_ns;
  slice.bytes = span.bytes;
  return slice;
}

TraceEvent slice_of_span(const KernelSpan& span) {
  TraceEvent slice = plain_slice();
  slice.pass = span.pass;
  slice.part = part_of(span.part);
  slice.step = span.step;
  slice.begin_ns = span.begin_ns;
  slice.end_ns = span.end_ns;
  return slice;
}

void notice_what_is_missing(Trace& trace) {
  const auto notice = [&](std::string_view what, std::string_view whose,
                          const std::vector<std::int64_t>& counts) {
    std::int64_t sum = 0;
    for (const std::int64_t count : counts) sum = saturating_sum(sum, count);
    if (sum > 0)
      trace.notices.push_back(fmt::format("{} {}{} found the {} buffer full and {} missing", sum,
                                          what, sum == 1 ? "" : "s", whose,
                                          sum == 1 ? "is" : "are"));
  };
  notice("event", "recorder's", trace.dropped);
  notice("stamp", "kernel's", trace.info.dropped_stamps);
}

// Puts a recording's events into rows, rank by rank.
class RingTrace {
 public:
  RingTrace(Recording recording, const std::vector<RecordedMessage>& messages, std::string path) {
    static_cast<Recording&>(trace_) = std::move(recording);
    trace_.path = std::move(path);
    trace_.is_ring = true;
    trace_.spans.resize(trace_.events.size());
    notice_what_is_missing(trace_);
    for (auto& events : trace_.events)
      for (TraceEvent& e : events) e.flow = 0;
    trace_.flows.resize(messages.size());
    for (std::size_t i = 0; i < messages.size(); ++i)
      for (const RecordedMessage::End& end : {messages[i].send, messages[i].recv})
        trace_.events[end.rank][end.index].flow = static_cast<std::int64_t>(i) + 1;
  }

  // Add the next of the recording's lists of events, which is that of `rank`.
  void add(int rank) {
    const std::size_t at = trace_.ranks.size(), r = static_cast<std::size_t>(rank);
    trace_.ranks.push_back({.pid = rank,
                            .name = fmt::format("rank {}", rank),
                            .first_lane = static_cast<std::uint32_t>(trace_.lanes.size())});
    std::size_t counts[kRingLanes] = {}, next[kRingLanes] = {};
    for (const TraceEvent& e : trace_.events[at]) ++counts[static_cast<std::size_t>(e.lane)];
    std::exclusive_scan(std::begin(counts), std::end(counts), next, std::size_t{0});
    std::vector<TraceEvent> by_lane(trace_.events[at].size());
    for (TraceEvent& e : trace_.events[at]) {
      e.name = name_of(e);
      by_lane[next[static_cast<std::size_t>(e.lane)]++] = e;
    }
    trace_.events[at] = std::move(by_lane);
    for (const Lane lane : kAllLanes) {
      const std::size_t count = counts[static_cast<std::size_t>(lane)];
      append(static_cast<int>(lane), std::string(ringscope::name_of(lane)),
             next[static_cast<std::size_t>(lane)] - count, count);
    }
    std::map<int, std::vector<TraceEvent>> others;
    const auto add_spans = [&](const auto& spans) {
      if (spans.empty()) return;
      for (const auto& span : spans[r]) {
        TraceEvent& slice = others[span.tid()].emplace_back(slice_of_span(span));
        slice.name = names_.number_of(title_of(span));
      }
    };
    if (!trace_.model.empty()) others[kModelTid];
    add_spans(trace_.model);
    add_spans(trace_.kernel);
    std::vector<TraceEvent>& store = trace_.spans[at];
    for (const auto& [tid, slices] : others) {
      store.insert(store.end(), slices.begin(), slices.end());
      append(tid, tid == kModelTid ? std::string(kModelLane) : lane_of_kernel(tid),
             store.size() - slices.size(), slices.size(), true);
    }
  }

  Trace finish() {
    for (std::uint32_t row = 0; row < trace_.rows.size(); ++row) {
      const std::span<const TraceEvent> slices = std::as_const(trace_).slices(row);
      for (std::uint32_t i = 0; i < slices.size(); ++i)
        if (slices[i].flow != 0) {
          TraceFlow& flow = trace_.flows[static_cast<std::size_t>(slices[i].flow) - 1];
          (slices[i].lane == Lane::send ? flow.from : flow.to) = {row, i};
        }
    }
    trace_.names = names_.take();
    measure_extent(trace_);
    return std::move(trace_);
  }

 private:
  // Return the number of an event's title, which is written once for all events that have it.
  std::uint32_t name_of(const TraceEvent& e) {
    const auto bits = [](auto value) { return static_cast<std::uint64_t>(value); };
    const std::uint64_t key = bits(e.lane) | bits(e.pass) << 3 | bits(e.payload) << 4 |
                              bits(e.lane == Lane::wait ? e.waiting_for : e.kv_owner) << 5;
    const auto [known, is_new] = titles_.try_emplace(key);
    if (is_new) known->second = names_.number_of(title_of(e));
    return known->second;
  }

  void append(int tid, std::string name, std::size_t first, std::size_t count,
              bool is_span = false) {
    if (const auto overlap = append_lane(trace_, tid, std::move(name), first, count, is_span))
      throw InputError(fmt::format(
          "ts: the slice of {} that begins at {} ns on lane {} lies half over an earlier one; "
          "slices that nest or don't overlap accepted",
          trace_.ranks.back().name, *overlap, trace_.lanes.back().name));
  }

  Trace trace_;
  NameTable names_;
  std::unordered_map<std::uint64_t, std::uint32_t> titles_;
};

Trace trace_of_ranks(Recording recording, const std::vector<RecordedMessage>& messages,
                     const std::vector<int>& ranks, std::string path) {
  RingTrace trace(std::move(recording), messages, std::move(path));
  for (const int rank : ranks) trace.add(rank);
  return trace.finish();
}

}  // namespace

std::uint32_t NameTable::number_of(std::string_view text) {
  const auto found = numbers_.find(text);
  if (found != numbers_.end()) return found->second;
  const auto number = static_cast<std::uint32_t>(texts_.size());
  texts_.emplace_back(text);
  numbers_.emplace(texts_.back(), number);
  return number;
}

std::vector<std::string> NameTable::take() {
  numbers_.clear();
  std::vector<std::string> texts(std::make_move_iterator(texts_.begin()),
                                 std::make_move_iterator(texts_.end()));
  texts_.clear();
  return texts;
}

std::optional<std::int64_t> append_lane(Trace& trace, std::int64_t tid, std::string name,
                                        std::size_t first, std::size_t count, bool is_span) {
  const std::size_t rank = trace.ranks.size() - 1;
  const std::span<TraceEvent> slices =
      std::span((is_span ? trace.spans : trace.events)[rank]).subspan(first, count);
  // Sorting takes memory for half of the slices, and recorders mostly write in order.
  if (!ranges::is_sorted(slices, comes_before)) ranges::stable_sort(slices, comes_before);
  std::optional<std::int64_t> overlap;
  std::vector<std::uint16_t> row_of(slices.size());
  std::vector<std::int64_t> ends;  // of each row's last slice
  std::vector<std::uint32_t> counts;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const TraceEvent& slice = slices[i];
    std::size_t row = 0;
    for (std::size_t above = ends.size(); above-- > 0;)
      if (ends[above] > slice.begin_ns && ends[above] >= slice.end_ns) {
        row = above + 1;
        break;
      }
    for (const std::int64_t end : ends)
      if (!overlap && end > slice.begin_ns && end < slice.end_ns) overlap = slice.begin_ns;
    while (row < ends.size() && ends[row] > slice.begin_ns) ++row;
    if (row == kMaxRows)
      throw InputError(
          fmt::format("more than {} slices over each other on one thread at {} ns; "
                      "at most {} accepted",
                      kMaxRows, slice.begin_ns, kMaxRows));
    if (row == ends.size()) {
      ends.push_back(0);
      counts.push_back(0);
    }
    ends[row] = slice.end_ns;
    ++counts[row];
    row_of[i] = static_cast<std::uint16_t>(row);
  }
  counts.resize(std::max<std::size_t>(counts.size(), 1));
  const auto lane = static_cast<std::uint32_t>(trace.lanes.size());
  trace.lanes.push_back({.rank = static_cast<std::uint32_t>(rank),
                         .tid = tid,
                         .name = std::move(name),
                         .first_row = static_cast<std::uint32_t>(trace.rows.size()),
                         .rows = static_cast<std::uint32_t>(counts.size())});
  ++trace.ranks[rank].lanes;
  std::vector<std::uint32_t> begins;  // of each row among the lane's slices
  std::uint32_t begin = 0;
  for (std::uint32_t depth = 0; depth < counts.size(); ++depth) {
    begins.push_back(begin);
    trace.rows.push_back(
        {lane, depth, static_cast<std::uint32_t>(first) + begin, counts[depth], is_span});
    begin += counts[depth];
  }
  if (counts.size() == 1) return overlap;
  const std::vector<TraceEvent> by_begin(slices.begin(), slices.end());
  for (std::size_t i = 0; i < by_begin.size(); ++i) slices[begins[row_of[i]]++] = by_begin[i];
  return overlap;
}

void measure_extent(Trace& trace) {
  std::int64_t begin = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = std::numeric_limits<std::int64_t>::min();
  trace.slice_count = 0;
  std::fill(std::begin(trace.steps), std::end(trace.steps), 0);
  for (const auto* store : {&trace.events, &trace.spans})
    for (const std::vector<TraceEvent>& slices : *store) {
      trace.slice_count += slices.size();
      for (const TraceEvent& slice : slices) {
        begin = std::min(begin, slice.begin_ns);
        end = std::max(end, slice.end_ns);
        int& steps = trace.steps[static_cast<std::size_t>(slice.pass)];
        steps = std::max(steps, slice.step + 1);
      }
    }
  trace.begin_ns = trace.slice_count > 0 ? begin : 0;
  trace.end_ns = trace.slice_count > 0 ? end : 0;
}

// ---
// Our own recordings.

Trace to_trace(Recording recording, const std::vector<RecordedMessage>& messages,
               std::string path) {
  std::vector<int> ranks(recording.events.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return trace_of_ranks(std::move(recording), messages, ranks, std::move(path));
}

Trace to_trace(Recording recording, std::string path) {
  const std::vector<RecordedMessage> messages = messages_of(recording);
  return to_trace(std::move(recording), messages, std::move(path));
}

Trace sample_trace(Recording recording, const std::vector<int>& ranks, std::string path) {
  std::vector<std::vector<TraceEvent>> kept;
  for (const int rank : ranks) kept.push_back(std::move(recording.events[rank]));
  recording.events = std::move(kept);
  recording.samples.clear();
  const std::vector<RecordedMessage> messages = messages_of(recording);
  return trace_of_ranks(std::move(recording), messages, ranks, std::move(path));
}

}  // namespace ringscope

#include "viz/model/trace/ring_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/trace/chrome_trace.h"

namespace ringscope::viz {
namespace {

constexpr std::size_t kLanes = std::size(kAllLanes);

Slice slice_of_event(const TraceEvent& e) {
  Slice slice{.begin_ns = e.begin_ns,
              .end_ns = e.end_ns,
              .pairs = e.pairs,
              .flops = e.flops,
              .tiles_full = e.tiles_full,
              .tiles_partial = e.tiles_partial,
              .tiles_skipped = e.tiles_skipped,
              .cpu_ns = e.cpu_ns,
              .bytes = e.bytes,
              .moved_ns = e.moved_ns,
              .step = e.step,
              .kv_owner = e.kv_owner,
              .kind = static_cast<Kind>(e.lane),
              .pass = e.pass,
              .payload = e.payload};
  if (e.lane == ringscope::Lane::send) slice.peer = e.dst;
  if (e.lane == ringscope::Lane::recv) slice.peer = e.src;
  if (e.lane == ringscope::Lane::wait) slice.peer = e.waiting_for;
  return slice;
}

std::vector<int> all_ranks(std::size_t world_size) {
  std::vector<int> ranks(world_size);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

RingEvents::RingEvents(const RunInfo& run, const std::vector<int>& ranks)
    : lanes_(kLanes * ranks.size()) {
  trace_.run = run;
  for (const int rank : ranks)
    trace_.ranks.push_back({.pid = rank, .name = fmt::format("rank {}", rank)});
}

void RingEvents::begin(const RunInfo& run, const std::vector<std::int64_t>& dropped) {
  *this = RingEvents(run, all_ranks(static_cast<std::size_t>(run.world_size)));
  const auto sum_of = [](const std::vector<std::int64_t>& counts) {
    std::int64_t sum = 0;
    for (const std::int64_t count : counts)
      if (__builtin_add_overflow(sum, count, &sum)) sum = INT64_MAX;
    return sum;
  };
  const std::int64_t lost = sum_of(dropped);
  ends_may_lack_ = lost > 0 || !run.is_whole();
  const auto notice = [&](std::string_view what, std::string_view whose, std::int64_t count) {
    if (count > 0)
      trace_.notices.push_back(fmt::format("{} {}{} found the {} buffer full and {} missing", count,
                                           what, count == 1 ? "" : "s", whose,
                                           count == 1 ? "is" : "are"));
  };
  notice("event", "recorder's", lost);
  notice("stamp", "kernel's", sum_of(run.dropped_stamps));
}

void RingEvents::slice(int rank, const TraceEvent& event, const TraceFields& fields) {
  if (event.lane == ringscope::Lane::send && event.src != rank)
    fields.refuse(EventField::src, fmt::format("its pid, {},", rank));
  if (event.lane == ringscope::Lane::recv && event.dst != rank)
    fields.refuse(EventField::dst, fmt::format("its pid, {},", rank));
  add(static_cast<std::size_t>(rank), event, fields.text_or_empty(EventField::name),
      fields.at(EventField::flow));
}

void RingEvents::span(int rank, const ModelSpan& span, const TraceFields& fields) {
  add(static_cast<std::size_t>(rank), span, fields.text_or_empty(EventField::name));
}

void RingEvents::span(int rank, const KernelSpan& span, const TraceFields& fields) {
  add(static_cast<std::size_t>(rank), span, fields.text_or_empty(EventField::name));
}

void RingEvents::add(std::size_t index, const TraceEvent& event, std::string_view name,
                     std::uint64_t flow_at) {
  Slice slice = slice_of_event(event);
  slice.name = names_.number_of(name);
  if (event.flow != 0) {
    const bool recv = event.lane == ringscope::Lane::recv;
    messages_.push_back({.id = event.flow, .at = flow_at, .slice = {}, .recv = recv});
    slice.flow = static_cast<std::uint32_t>(messages_.size());
  }
  lanes_[kLanes * index + static_cast<std::size_t>(event.lane)].push_back(slice);
  ++count_;
}

void RingEvents::add(std::size_t index, const ModelSpan& span, std::string_view name) {
  model_.resize(trace_.ranks.size());
  model_[index].push_back({.begin_ns = span.begin_ns,
                           .end_ns = span.end_ns,
                           .bytes = span.bytes,
                           .name = names_.number_of(name),
                           .kind = span.bytes > 0 ? Kind::communication : Kind::other,
                           .pass = span.pass,
                           .part = static_cast<std::int8_t>(span.part)});
  ++count_;
}

void RingEvents::add(std::size_t index, const KernelSpan& span, std::string_view name) {
  kernel_.resize(trace_.ranks.size());
  kernel_[index][span.tid()].push_back({.begin_ns = span.begin_ns,
                                        .end_ns = span.end_ns,
                                        .name = names_.number_of(name),
                                        .step = span.step,
                                        .kind = Kind::other,
                                        .pass = span.pass,
                                        .part = part_of(span.part),
                                        .matrix = span.matrix,
                                        .own_tile = span.own_tile(),
                                        .ticks = span.ticks});
  ++count_;
}

Trace RingEvents::finish(bool is_cut_off) {
  ends_may_lack_ = ends_may_lack_ || is_cut_off;
  trace_.is_part = is_cut_off && !has_flow_events_;  // which come after the slices
  make_rows();
  join_messages();
  trace_.names = names_.take();
  measure_extent(trace_);
  return std::move(trace_);
}

void RingEvents::make_rows() {
  for (std::size_t index = 0; index < trace_.ranks.size(); ++index) {
    RankTrack& rank = trace_.ranks[index];
    rank.first_lane = static_cast<std::uint32_t>(trace_.lanes.size());
    const auto append = [&](std::size_t tid, std::string_view name, LaneSlices& slices) {
      std::int64_t overlap = -1;
      auto rows = slices.take_rows(overlap);
      if (overlap >= 0)
        throw InputError(fmt::format(
            "ts: the slice of {} that begins at {} ns on lane {} lies half over an earlier one; "
            "slices that nest or don't overlap accepted",
            rank.name, overlap, name));
      append_lane(trace_, index, static_cast<std::int64_t>(tid), std::string(name),
                  std::move(rows));
    };
    for (const ringscope::Lane lane : kAllLanes) {
      const auto tid = static_cast<std::size_t>(lane);
      append(tid, name_of(lane), lanes_[kLanes * index + tid]);
    }
    if (!model_.empty()) append(kModelTid, kModelLane, model_[index]);
    if (!kernel_.empty())
      for (auto& [tid, slices] : kernel_[index])
        append(static_cast<std::size_t>(tid), lane_of_kernel(tid), slices);
  }
  for (std::uint32_t row = 0; row < trace_.rows.size(); ++row) {
    auto& slices = trace_.rows[row].slices;
    for (std::uint32_t i = 0; i < slices.size(); ++i)
      if (slices[i].flow != 0) messages_[slices[i].flow - 1].slice = {row, i};
  }
}

void RingEvents::join_messages() {
  const auto before = [](const MessageEnd& a, const MessageEnd& b) {
    return std::tie(a.id, a.recv, a.at) < std::tie(b.id, b.recv, b.at);
  };
  std::sort(messages_.begin(), messages_.end(), before);
  for (std::size_t i = 0; i < messages_.size();) {
    const MessageEnd& first = messages_[i];
    const bool more = i + 1 < messages_.size() && messages_[i + 1].id == first.id;
    trace_.rows[first.slice.row].slices[first.slice.index].flow = 0;
    if (!more) {
      if (!ends_may_lack_)
        fail_at(first.at, fmt::format("{} given for flow; one that a {} slice has as well accepted",
                                      first.id, first.recv ? "send" : "recv"));
      ++i;
      continue;
    }
    const MessageEnd& second = messages_[i + 1];
    if (first.recv || !second.recv ||
        (i + 2 < messages_.size() && messages_[i + 2].id == first.id)) {
      const MessageEnd& again = first.recv || !second.recv ? second : messages_[i + 2];
      fail_at(again.at, fmt::format("{} given for flow a second time; one send and one recv slice "
                                    "with it accepted",
                                    first.id));
    }
    Slice& send = trace_.rows[first.slice.row].slices[first.slice.index];
    Slice& recv = trace_.rows[second.slice.row].slices[second.slice.index];
    const std::int64_t sender = trace_.ranks[trace_.rank_of_row(first.slice.row)].pid;
    const std::int64_t receiver = trace_.ranks[trace_.rank_of_row(second.slice.row)].pid;
    if (send.peer != receiver || recv.peer != sender)
      fail_at(second.at, fmt::format("{} given for flow from rank {} to {} and by rank {} from {}; "
                                     "two ends of one message accepted",
                                     first.id, sender, send.peer, receiver, recv.peer));
    trace_.flows.push_back({first.slice, second.slice});
    send.flow = recv.flow = static_cast<std::uint32_t>(trace_.flows.size());
    i += 2;
  }
}

Trace sample_trace(const Recording& recording, const std::vector<int>& ranks, std::string path) {
  RingEvents events(recording.info, ranks);
  for (std::size_t i = 0; i < ranks.size(); ++i)
    for (const TraceEvent& event : recording.events[ranks[i]])
      events.add(i, event, title_of(event), 0);
  Trace trace = events.finish();
  trace.path = std::move(path);
  return trace;
}

Trace to_trace(const Recording& recording, std::string path) {
  Trace trace = sample_trace(recording, all_ranks(recording.events.size()), std::move(path));
  trace.samples = recording.samples;
  trace.story = recording.story;
  return trace;
}

}  // namespace ringscope::viz

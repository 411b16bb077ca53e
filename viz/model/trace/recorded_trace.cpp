#include "viz/model/trace/recorded_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "viz/model/trace/trace_rows.h"

namespace ringscope::viz {
namespace {

// Return the number of the name that write_chrome_trace gives to the event.
std::uint32_t name_of_slice(const TraceEvent& e, NameTable& names) {
  const char* const backward = e.pass == Pass::backward ? " (backward)" : "";
  switch (e.lane) {
    case ringscope::Lane::compute:
      return names.number_of(fmt::format("attend kv {}{}", e.kv_owner, backward));
    case ringscope::Lane::wait:
      return names.number_of(fmt::format("wait for rank {}{}", e.waiting_for, backward));
    default:
      return names.number_of(
          fmt::format("{} {} {}{}", name_of(e.lane), name_of(e.payload), e.kv_owner, backward));
  }
}

Slice slice_of_event(const TraceEvent& e, NameTable& names) {
  Slice slice{.begin_ns = e.begin_ns,
              .end_ns = e.end_ns,
              .name = name_of_slice(e, names),
              .step = e.step,
              .kv_owner = e.kv_owner,
              .kind = static_cast<Kind>(e.lane),
              .pass = e.pass};
  if (e.lane == ringscope::Lane::compute) {
    slice.pairs = e.pairs;
    slice.flops = e.flops;
    slice.tiles_full = e.tiles_full;
    slice.tiles_partial = e.tiles_partial;
    slice.tiles_skipped = e.tiles_skipped;
    slice.cpu_ns = e.cpu_ns;
    return slice;
  }
  slice.payload = e.payload;
  if (e.lane == ringscope::Lane::wait) {
    slice.peer = e.waiting_for;
  } else {
    slice.bytes = e.bytes;
    slice.peer = e.lane == ringscope::Lane::send ? e.dst : e.src;
  }
  return slice;
}

// A MessageEnd holds the message's id, whether this end receives, and the end's slice.
using MessageEnd = std::tuple<std::int64_t, bool, SliceId>;

// Join both ends of every message that has two.
void join(std::vector<MessageEnd>& ends, Trace& trace) {
  std::sort(ends.begin(), ends.end(), [](const MessageEnd& a, const MessageEnd& b) {
    return std::pair(std::get<0>(a), std::get<1>(a)) < std::pair(std::get<0>(b), std::get<1>(b));
  });
  for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
    const auto& [id, recv, from] = ends[i];
    const auto& [next_id, next_recv, to] = ends[i + 1];
    if (id != next_id || recv || !next_recv) continue;
    trace.flows.push_back({from, to});
    const auto flow = static_cast<std::uint32_t>(trace.flows.size());
    trace.rows[from.row].slices[from.index].flow = flow;
    trace.rows[to.row].slices[to.index].flow = flow;
  }
}

// Make the trace. Until slices are in order, a slice's flow is 1 + the index of its message's id.
Trace make(const Recording& recording, const std::vector<int>& ranks, std::string path) {
  Trace trace;
  trace.path = std::move(path);
  trace.run = recording.info;
  NameTable names;
  std::vector<std::int64_t> messages;
  for (const int rank : ranks) {
    trace.ranks.push_back({.pid = rank,
                           .name = fmt::format("rank {}", rank),
                           .first_lane = static_cast<std::uint32_t>(trace.lanes.size()),
                           .lanes = 0});
    std::vector<Slice> lanes[std::size(kAllLanes)];
    for (const TraceEvent& e : recording.events[static_cast<std::size_t>(rank)]) {
      Slice slice = slice_of_event(e, names);
      if (e.flow != 0 && (e.lane == ringscope::Lane::send || e.lane == ringscope::Lane::recv)) {
        messages.push_back(e.flow);
        slice.flow = static_cast<std::uint32_t>(messages.size());
      }
      lanes[static_cast<std::size_t>(e.lane)].push_back(slice);
    }
    for (const ringscope::Lane lane : kAllLanes) {
      std::vector<Slice>& slices = lanes[static_cast<std::size_t>(lane)];
      sort_slices(slices);
      std::int64_t overlap = -1;  // never set, because a rank's own recorder makes no overlaps
      append_lane(trace, static_cast<std::int64_t>(lane), std::string(name_of(lane)),
                  rows_of(std::move(slices), overlap));
    }
  }
  std::vector<MessageEnd> ends;
  ends.reserve(messages.size());
  for (std::uint32_t row = 0; row < trace.rows.size(); ++row) {
    std::vector<Slice>& slices = trace.rows[row].slices;
    for (std::uint32_t i = 0; i < slices.size(); ++i) {
      if (slices[i].flow == 0) continue;
      const std::int64_t id = messages[slices[i].flow - 1];
      ends.emplace_back(id, slices[i].kind == Kind::recv, SliceId{row, i});
      slices[i].flow = 0;
    }
  }
  join(ends, trace);
  trace.names = names.take();
  measure_extent(trace);
  return trace;
}

}  // namespace

Trace to_trace(const Recording& recording, std::string path) {
  std::vector<int> ranks(recording.events.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  Trace trace = make(recording, ranks, std::move(path));
  trace.samples = recording.samples;
  trace.story = recording.story;
  return trace;
}

Trace sample_trace(const Recording& recording, const std::vector<int>& ranks, std::string path) {
  return make(recording, ranks, std::move(path));
}

}  // namespace ringscope::viz

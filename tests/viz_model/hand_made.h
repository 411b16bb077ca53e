// Traces without files: made slice by slice, where a test knows the answer, or straight from a
// recording that was just made. Both give what the loader would give for the written recording.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/ring/ring.h"
#include "core/trace/event.h"
#include "viz/model/trace/trace.h"

namespace ringscope::viz {

// Its name is that of its kind.
inline Slice slice_of(const TraceEvent& e) {
  Slice slice;
  slice.begin_ns = e.begin_ns;
  slice.end_ns = e.end_ns;
  slice.step = e.step;
  slice.kv_owner = e.kv_owner;
  slice.pass = e.pass;
  slice.payload = e.payload;
  switch (e.lane) {
    case ringscope::Lane::compute:
      slice.kind = Kind::compute;
      slice.pairs = e.pairs;
      slice.flops = e.flops;
      slice.tiles_full = e.tiles_full;
      slice.tiles_partial = e.tiles_partial;
      slice.tiles_skipped = e.tiles_skipped;
      slice.cpu_ns = e.cpu_ns;
      break;
    case ringscope::Lane::send:
      slice.kind = Kind::send;
      slice.bytes = e.bytes;
      slice.peer = e.dst;
      break;
    case ringscope::Lane::recv:
      slice.kind = Kind::recv;
      slice.bytes = e.bytes;
      slice.peer = e.src;
      break;
    case ringscope::Lane::wait:
      slice.kind = Kind::wait;
      slice.peer = e.waiting_for;
      break;
  }
  slice.name = static_cast<std::uint32_t>(slice.kind);
  return slice;
}

// `recording` as a trace. Names are those of kinds.
inline Trace trace_of(const Recording& recording, const std::string& path = "made.json") {
  Trace trace;
  trace.path = path;
  trace.run = recording.info;
  trace.samples = recording.samples;
  trace.story = recording.story;
  for (int kind = 0; kind < kKindCount; ++kind)
    trace.names.emplace_back(name_of(static_cast<Kind>(kind)));

  std::map<std::int64_t, Flow> flows;
  std::map<std::int64_t, int> flow_ends;
  for (std::size_t rank = 0; rank < recording.events.size(); ++rank) {
    const auto first_lane = static_cast<std::uint32_t>(trace.lanes.size());
    trace.ranks.push_back(
        {static_cast<std::int64_t>(rank), "rank " + std::to_string(rank), first_lane, 4});
    for (const ringscope::Lane kind : kAllLanes) {
      const auto row = static_cast<std::uint32_t>(trace.rows.size());
      trace.lanes.push_back({static_cast<std::uint32_t>(rank), static_cast<std::int64_t>(kind),
                             std::string(name_of(kind)), row, 1});
      std::vector<const TraceEvent*> events;
      for (const TraceEvent& e : recording.events[rank])
        if (e.lane == kind) events.push_back(&e);
      std::stable_sort(events.begin(), events.end(), [](const TraceEvent* a, const TraceEvent* b) {
        return std::pair(a->begin_ns, a->end_ns) < std::pair(b->begin_ns, b->end_ns);
      });
      Row& made = trace.rows.emplace_back();
      made.lane = row;  // one row a lane
      for (const TraceEvent* e : events) {
        const SliceId id{row, static_cast<std::uint32_t>(made.slices.size())};
        made.slices.push_back(slice_of(*e));
        if (e->flow == 0) continue;
        (kind == ringscope::Lane::send ? flows[e->flow].from : flows[e->flow].to) = id;
        ++flow_ends[e->flow];
      }
    }
  }
  for (const auto& [number, flow] : flows) {
    if (flow_ends[number] != 2) continue;
    trace.flows.push_back(flow);
    const auto joined = static_cast<std::uint32_t>(trace.flows.size());
    trace.rows[flow.from.row].slices[flow.from.index].flow = joined;
    trace.rows[flow.to.row].slices[flow.to.index].flow = joined;
  }
  for (const Row& row : trace.rows)
    for (const Slice& slice : row.slices) {
      trace.begin_ns =
          trace.slice_count == 0 ? slice.begin_ns : std::min(trace.begin_ns, slice.begin_ns);
      trace.end_ns = trace.slice_count == 0 ? slice.end_ns : std::max(trace.end_ns, slice.end_ns);
      ++trace.slice_count;
    }
  return trace;
}

// A recording made slice by slice. Owners follow from rank and step as in core/ring; a wait is for
// the rank before unless it says otherwise.
class HandMade {
 public:
  explicit HandMade(int world_size, const std::string& partition = "contiguous",
                    const std::string& mask = "full", const std::string& scheme = "ring",
                    std::int64_t seqlen = 64) {
    recording_.info.world_size = world_size;
    recording_.info.partition = partition;
    recording_.info.mask = mask;
    recording_.info.scheme = scheme;
    recording_.info.shape.seqlen = seqlen;
    recording_.events.resize(static_cast<std::size_t>(world_size));
  }

  HandMade& compute(int rank, int step, std::int64_t begin, std::int64_t end,
                    std::int64_t pairs = 1, Pass pass = Pass::forward) {
    TraceEvent& e = add(ringscope::Lane::compute, rank, step, begin, end, pass);
    e.kv_owner = schedule(rank).owner(step);
    e.pairs = pairs;
    e.flops = (pass == Pass::forward ? 4 : 10) * pairs;
    e.cpu_ns = end - begin;
    return *this;
  }

  HandMade& wait(int rank, int step, std::int64_t begin, std::int64_t end,
                 Payload payload = Payload::kv, Pass pass = Pass::forward) {
    TraceEvent& e = add(ringscope::Lane::wait, rank, step, begin, end, pass);
    e.payload = payload;
    e.kv_owner = schedule(rank).owner(step);
    e.waiting_for = schedule(rank).recv_rank();
    return *this;
  }
  // The wait for the sum that comes home at the end of a backward pass.
  HandMade& wait_home(int rank, std::int64_t begin, std::int64_t end) {
    const int last = recording_.info.world_size - 1;
    wait(rank, last, begin, end, Payload::dkv, Pass::backward);
    events(rank).back().kv_owner = rank;
    return *this;
  }

  // What rank `src` passes on at the end of step `step`: both slices, and their flow.
  HandMade& hop(int src, int step, std::pair<std::int64_t, std::int64_t> send,
                std::pair<std::int64_t, std::int64_t> recv, std::int64_t bytes = 100,
                Payload payload = Payload::kv, Pass pass = Pass::forward) {
    const RingSchedule ring = schedule(src);
    const bool scatter = recording_.info.scheme == "allgather" && payload == Payload::dkv;
    const int owner = ring.owner(scatter ? step + 1 : step), dst = ring.send_rank();
    ++flows_;
    for (const bool sends : {true, false}) {
      const auto [begin, end] = sends ? send : recv;
      TraceEvent& e = add(sends ? ringscope::Lane::send : ringscope::Lane::recv, sends ? src : dst,
                          step, begin, end, pass);
      e.payload = payload;
      e.kv_owner = owner;
      e.bytes = bytes;
      e.src = src;
      e.dst = dst;
      e.flow = flows_;
    }
    return *this;
  }
  HandMade& hop(int src, int step, std::int64_t begin, std::int64_t end, std::int64_t bytes = 100,
                Payload payload = Payload::kv, Pass pass = Pass::forward) {
    return hop(src, step, {begin, end}, {begin, end}, bytes, payload, pass);
  }

  Recording& recording() { return recording_; }
  Trace trace() const { return trace_of(recording_); }

 private:
  RingSchedule schedule(int rank) const { return {rank, recording_.info.world_size}; }
  std::vector<TraceEvent>& events(int rank) {
    return recording_.events[static_cast<std::size_t>(rank)];
  }
  TraceEvent& add(ringscope::Lane lane, int rank, int step, std::int64_t begin, std::int64_t end,
                  Pass pass) {
    TraceEvent& e = events(rank).emplace_back();
    e.lane = lane;
    e.pass = pass;
    e.step = step;
    e.begin_ns = begin;
    e.end_ns = end;
    return e;
  }

  Recording recording_;
  std::int64_t flows_ = 0;
};

}  // namespace ringscope::viz

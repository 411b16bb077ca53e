// Shows everything about a slice beside the mouse.
#include <fmt/format.h>

#include "viz/model/session/format.h"
#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {
namespace {

std::string rank_text(const Trace& trace, std::int32_t rank) {
  return !trace.is_ring() && rank >= 0 && static_cast<std::size_t>(rank) < trace.ranks.size()
             ? trace.ranks[static_cast<std::size_t>(rank)].name
             : fmt::format("rank {}", rank);
}

// Return `amount` per second, or none if the amount or the time is not positive.
std::optional<double> per_second(std::int64_t amount, std::int64_t ns) {
  if (amount <= 0 || ns <= 0) return std::nullopt;
  return static_cast<double>(amount) * 1e9 / static_cast<double>(ns);
}

std::string title_of(const TimelineFrame& frame, SliceId id) {
  const Trace& trace = frame.trace();
  const Slice& slice = trace.slice(id);
  if (!trace.is_ring()) return slice_title(trace, slice);
  if (slice.kind == Kind::wait) return fmt::format("waits for {}", rank_text(trace, slice.peer));
  constexpr const char* kVerbs[kKindCount] = {"computes on ", "sends ", "receives ", "", "", ""};
  return kVerbs[static_cast<int>(slice.kind)] + slice_title(trace, slice);
}

void add_ring_fields(const TimelineFrame& frame, const Slice& slice, Pairs& rows) {
  if (slice.step >= 0)
    rows.emplace_back("step", fmt::format("{}, {} pass", slice.step, name_of(slice.pass)));
  if (slice.kv_owner >= 0) {
    rows.emplace_back(slice.payload == Payload::dkv ? "gradient of KV" : "KV block",
                      fmt::format("of {}", rank_text(frame.trace(), slice.kv_owner)));
  }
}

void add_work(const Slice& slice, Pairs& rows) {
  rows.emplace_back("pairs", count_text(slice.pairs));
  rows.emplace_back("work", flops_text(slice.flops));
  if (const auto rate = per_second(slice.flops, slice.duration_ns()))
    rows.emplace_back("speed", flops_text(*rate) + "/s");
  if (slice.tiles_full + slice.tiles_partial + slice.tiles_skipped > 0) {
    rows.emplace_back("tiles", fmt::format("{} full, {} partial, {} skipped", slice.tiles_full,
                                           slice.tiles_partial, slice.tiles_skipped));
  }
  if (slice.cpu_ns > 0) rows.emplace_back("processor time", time_text(slice.cpu_ns));
}

}  // namespace

void draw_slice_tooltip(const TimelineFrame& frame, SliceId id) {
  const Trace& trace = frame.trace();
  const Slice& slice = trace.slice(id);
  const Lane& lane = trace.lanes[trace.rows[id.row].lane];
  Pairs rows;
  rows.emplace_back(trace.is_ring() ? "on" : "track", trace.ranks[lane.rank].name);
  if (!trace.is_ring() && !lane.name.empty()) rows.emplace_back("lane", lane.name);
  add_ring_fields(frame, slice, rows);
  rows.emplace_back("duration", time_text(slice.duration_ns()));
  rows.emplace_back("begins at", time_text(slice.begin_ns - trace.begin_ns));
  if (trace.is_ring() && slice.kind == Kind::compute) add_work(slice, rows);
  if (slice.bytes > 0) {
    rows.emplace_back("bytes", bytes_text(slice.bytes));
    if (const auto rate = per_second(slice.bytes, slice.duration_ns()))
      rows.emplace_back("bandwidth", bandwidth_text(*rate));
  }
  if (slice.peer >= 0 && slice.kind != Kind::wait)
    rows.emplace_back(slice.kind == Kind::recv ? "from" : "to", rank_text(trace, slice.peer));
  draw_tooltip(frame.context, title_of(frame, id), rows);
}

}  // namespace ringscope::viz

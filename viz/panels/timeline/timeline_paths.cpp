// Draws what runs between ranks: flows from send to receive, and the critical path.
#include <algorithm>
#include <cmath>

#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {
namespace {

constexpr std::size_t kMostFlows = 300;        // more at once would be a tangle
constexpr std::uint32_t kMostLookedAt = 8000;  // slices; more show only the selected flow
constexpr std::ptrdiff_t kMostSegments = 50000;

// How a flow relates to the selection.
enum class Near { other, chain, own };

Near nearness(const TimelineFrame& frame, const Slice& sent, std::uint32_t flow) {
  const Session& session = frame.context.session;
  if (!frame.active || !session.selected) return Near::other;
  const Slice& selected = frame.trace().slice(*session.selected);
  if (selected.flow == flow) return Near::own;
  // The same block on its way round the ring is part of the chain.
  const bool same = selected.kv_owner >= 0 && selected.kv_owner == sent.kv_owner &&
                    selected.pass == sent.pass &&
                    (selected.kind == Kind::compute || selected.payload == sent.payload);
  return same ? Near::chain : Near::other;
}

struct SeenFlow {
  std::uint32_t flow = 0;  // as in Slice
  Near near = Near::other;
};

std::vector<SeenFlow> seen_flows(const TimelineFrame& frame) {
  const Trace& trace = frame.trace();
  std::vector<SeenFlow> seen;
  const Session& session = frame.context.session;
  if (frame.active && session.selected && trace.slice(*session.selected).flow != 0)
    seen.push_back({trace.slice(*session.selected).flow, Near::own});
  std::uint32_t looked_at = 0;
  std::vector<std::pair<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>>> ranges;
  for (const RowPlace& place : frame.layout.rows) {
    if (frame.row_box(place.row)) {
      ranges.emplace_back(place.row, frame.visible(place.row));
      looked_at += ranges.back().second.second - ranges.back().second.first;
    }
  }
  if (looked_at > kMostLookedAt) return seen;
  for (const auto& [row, range] : ranges) {
    for (std::uint32_t i = range.first; i < range.second; ++i) {
      const std::uint32_t flow = trace.rows[row].slices[i].flow;
      if (flow == 0) continue;
      // If both ends of a flow are in view, count it only at the sender's end.
      const Flow& ends = trace.flows[flow - 1];
      const bool sender = ends.from == SliceId{row, i};
      if (sender || !frame.slice_box(ends.from)) {
        const Near near = nearness(frame, trace.slice(ends.from), flow);
        if (near != Near::own) seen.push_back({flow, near});
      }
    }
  }
  return seen;
}

void draw_flow(const TimelineFrame& frame, const SeenFlow& seen) {
  const Flow& flow = frame.trace().flows[seen.flow - 1];
  const RowPlace* from_row = frame.layout.place_of(flow.from.row);
  const RowPlace* to_row = frame.layout.place_of(flow.to.row);
  if (from_row == nullptr || to_row == nullptr) return;
  const auto middle = [&](const RowPlace& place) { return frame.y_at(place.y + place.height / 2); };
  // Draw from where sending begins to where the message has arrived.
  const Slice& sent = frame.trace().slice(flow.from);
  const Slice& received = frame.trace().slice(flow.to);
  const ImVec2 from(frame.x_at(frame.rank_of(flow.from.row), sent.begin_ns), middle(*from_row));
  const ImVec2 to(frame.x_at(frame.rank_of(flow.to.row), received.end_ns), middle(*to_row));
  const double strength = seen.near == Near::own ? 1 : seen.near == Near::chain ? 0.8 : 0.3;
  const Color color = with_alpha(frame.context.palette.flow, strength);
  const float thickness = seen.near == Near::own ? 2.2f : seen.near == Near::chain ? 1.6f : 1;
  const float head = seen.near == Near::other ? 6 : 8;
  const float dx = to.x - from.x, dy = to.y - from.y;
  if (dx < 4 * head) {
    // The line is steep, or runs backwards because ranks' steps overlap, so it has no room to bend.
    const float length = std::max(std::hypot(dx, dy), 1.0f);
    const ImVec2 along(dx / length, dy / length);
    draw_list().AddLine(from, {to.x - along.x * head, to.y - along.y * head}, color, thickness);
    arrowhead(to, along.x, along.y, head, color);
    return;
  }
  const float bend = std::min(dx / 2, 80.0f);
  draw_list().AddBezierCubic(from, {from.x + bend, from.y}, {to.x - head - bend, to.y},
                             {to.x - head, to.y}, color, thickness, 16);
  arrowhead(to, 1, 0, head, color);
}

// Return the row of a segment of the critical path.
std::uint32_t row_of(const Trace& trace, const PathSegment& segment) {
  if (segment.has_slice) return segment.slice.row;
  if (segment.kind == PathSegment::compute && trace.has_model())
    return trace.lanes[trace.ranks[static_cast<std::size_t>(segment.rank)].first_lane + kModelTid]
        .first_row;
  return trace.row_of(segment.rank, RingLane::compute);
}

// Draw a segment from `last`, the current end of the path. Return the new end.
std::optional<ImVec2> draw_segment(const TimelineFrame& frame, const PathSegment& segment,
                                   std::optional<ImVec2> last) {
  const Session& session = frame.context.session;
  const Palette& palette = frame.context.palette;
  const Trace& trace = frame.trace();
  const RowPlace* place = frame.layout.place_of(row_of(trace, segment));
  const float x0 = frame.x_at(segment.rank, segment.begin_ns);
  const float x1 = frame.x_at(segment.rank, segment.end_ns);
  // Leave out segments that add less than a pixel to the line.
  if (place == nullptr || (last && x1 - x0 < 2 && std::abs(x1 - last->x) < 1)) return last;
  const float top = frame.y_at(place->y);
  // Draw below the words if the row is high enough to have some.
  const float y =
      std::floor(place->height < 11 ? top + place->height / 2 : top + place->height - 1);
  if (segment.kind == PathSegment::compute && segment.has_slice) {
    if (const std::optional<Box> box = frame.slice_box(segment.slice)) {
      fill(*box, slice_color(session.theme, session.color_by, trace.slice(segment.slice),
                             trace.run->world_size));
      if (box->width() >= 6) outline(*box, palette.critical_path);
    }
  }
  if (last) draw_list().AddLine(*last, {x0, y}, palette.critical_path, 2);
  draw_list().AddLine({x0, y}, {x1, y}, palette.critical_path, 2);
  return ImVec2(x1, y);
}

}  // namespace

void draw_flows(const TimelineFrame& frame) {
  if (!frame.context.session.show_flows || frame.trace().flows.empty()) return;
  std::vector<SeenFlow> seen = seen_flows(frame);
  // Show all of the faint flows or none, because a selection would be arbitrary.
  if (seen.size() > kMostFlows) {
    seen.erase(std::remove_if(seen.begin(), seen.end(),
                              [](const SeenFlow& flow) { return flow.near == Near::other; }),
               seen.end());
    seen.resize(std::min(seen.size(), kMostFlows));
  }
  std::stable_sort(seen.begin(), seen.end(),
                   [](const SeenFlow& a, const SeenFlow& b) { return a.near < b.near; });
  for (const SeenFlow& flow : seen) draw_flow(frame, flow);
}

void draw_critical_path(const TimelineFrame& frame) {
  const Trace& trace = frame.trace();
  const std::vector<PathSegment>& segments = frame.document.path.segments;
  if (!frame.context.session.show_critical_path || segments.empty()) return;
  // Find the times that any rank can have in view. On the step axis ranks show different times.
  std::int64_t begin = trace.end_ns, end = trace.begin_ns;
  for (int rank = 0; rank < trace.run->world_size; ++rank) {
    begin = std::min(begin, frame.document.axis.time_at(frame.mode, rank, frame.view.begin));
    end = std::max(end, frame.document.axis.time_at(frame.mode, rank, frame.view.end));
  }
  const auto first =
      std::partition_point(segments.begin(), segments.end(),
                           [begin](const PathSegment& segment) { return segment.end_ns < begin; });
  const auto stop = std::partition_point(
      first, segments.end(), [end](const PathSegment& segment) { return segment.begin_ns <= end; });
  const auto stride = 1 + (stop - first) / kMostSegments;
  std::optional<ImVec2> last;
  for (auto at = first; at < stop; at += std::min(stride, stop - at))
    last = draw_segment(frame, *at, last);
}

}  // namespace ringscope::viz

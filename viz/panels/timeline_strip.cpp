#include "viz/panels/timeline_strip.h"

#include <algorithm>
#include <string>

#include "viz/panels/timeline_frame.h"

namespace ringscope::viz {
namespace {

constexpr float kLeastRow = 2;  // pixels

// A strip does not scroll: rows become as low as it takes. Where they would be too low to be seen,
// each rank shows its first one only, which is what it computes.
void fit_rows(TimelineFrame& frame) {
  TimelineLayout& layout = frame.layout;
  const float share = frame.body.height() / layout.content_height;
  if (share >= 1) {
    return;
  }
  for (RankPlace& place : layout.ranks) {
    place.y *= share;
    place.height *= share;
  }
  for (RowPlace& place : layout.rows) {
    place.y *= share;
    place.height *= share;
  }
  layout.content_height = frame.body.height();
  if (layout.rows.front().height >= kLeastRow) {
    return;
  }
  layout.rows.clear();
  for (const RankPlace& place : layout.ranks) {
    const RankTrack& rank = frame.trace().ranks[place.rank];
    if (rank.lanes > 0 && frame.trace().lanes[rank.first_lane].rows > 0) {
      layout.rows.push_back(
          {frame.trace().lanes[rank.first_lane].first_row, place.y, std::max(1.0f, place.height)});
    }
  }
}

}  // namespace

void draw_timeline_strip(const PanelContext& context, std::size_t document, const ImVec2& top_left,
                         const ImVec2& size, const TimelineView& view) {
  if (size.x < kTimelineStripGutter + 8 || size.y < 8 ||
      context.session.documents[document].trace.slice_count == 0) {
    return;
  }
  const Box body{top_left.x + kTimelineStripGutter, top_left.y, top_left.x + size.x,
                 top_left.y + size.y};
  TimelineFrame frame = make_frame(context, document, body, view, 1);
  if (frame.length() <= 0) {
    return;
  }
  fit_rows(frame);
  draw_body(frame, "timeline.strip" + std::to_string(document));
  draw_gutter(frame, {top_left.x, frame.body.y0, frame.body.x0, frame.body.y1});
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  if (!ImGui::IsWindowHovered() || !frame.body.contains(mouse)) {
    return;
  }
  const std::optional<SliceId> slice =
      slice_at(frame.trace(), frame.document.axis, frame.mode, frame.layout, frame.view,
               mouse.x - frame.body.x0, mouse.y - frame.body.y0);
  if (slice) {
    draw_slice_tooltip(frame, *slice);
  }
}

void draw_timeline_strip_ruler(const PanelContext& context, std::size_t document,
                               const ImVec2& top_left, const ImVec2& size,
                               const TimelineView& view) {
  const Box ruler{top_left.x + kTimelineStripGutter, top_left.y, top_left.x + size.x,
                  top_left.y + size.y};
  if (ruler.width() >= 8 && ruler.height() >= 8) {
    draw_ruler(make_frame(context, document, ruler, view, 1), ruler);
  }
}

}  // namespace ringscope::viz

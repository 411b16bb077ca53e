#include "viz/panels/timeline/timeline_strip.h"

#include <algorithm>
#include <string>
#include <vector>

#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {
namespace {

constexpr float kLeastRow = 2;  // pixels

// Fit the rows to a strip, which doesn't scroll and is for comparing. Of a ring it shows computing
// above waiting, and messages only if asked for. Ranks shrink as needed; where rows would be too
// low to be seen, each rank shows only its computing.
void fit_rows(TimelineFrame& frame, bool messages) {
  TimelineLayout& layout = frame.layout;
  const Trace& trace = frame.trace();
  if (trace.ranks.empty()) return;
  const float height = frame.body.height() / static_cast<float>(trace.ranks.size());
  const float gap = height >= 12 ? 4.0f : 0.0f;
  layout.rows.clear();
  layout.ranks.clear();
  for (std::uint32_t r = 0; r < trace.ranks.size(); ++r) {
    const float y = height * static_cast<float>(r);
    layout.ranks.push_back({r, y, height - gap});
    std::vector<std::uint32_t> rows;
    if (trace.is_ring()) {
      for (const RingLane lane : {RingLane::compute, RingLane::recv, RingLane::wait})
        if (messages || lane != RingLane::recv)
          rows.push_back(trace.row_of(static_cast<int>(r), lane));
    } else {
      const RankTrack& rank = trace.ranks[r];
      for (std::uint32_t l = rank.first_lane; l < rank.first_lane + rank.lanes; ++l)
        for (std::uint32_t k = 0; k < trace.lanes[l].rows; ++k)
          rows.push_back(trace.lanes[l].first_row + k);
    }
    const float share = (height - gap) / static_cast<float>(std::max<std::size_t>(1, rows.size()));
    const std::size_t shown =
        share < kLeastRow ? std::min<std::size_t>(1, rows.size()) : rows.size();
    // Computing stays the most visible row among messages.
    const bool first_higher = messages && trace.is_ring() && shown > 1;
    const float parts =
        static_cast<float>(std::max<std::size_t>(1, shown) + (first_higher ? 1 : 0));
    const float row_height = std::max(1.0f, (height - gap) / parts);
    float row_y = y;
    for (std::size_t k = 0; k < shown; ++k) {
      const float high = k == 0 && first_higher ? 2 * row_height : row_height;
      layout.rows.push_back({rows[k], row_y, high});
      row_y += high;
    }
  }
  layout.content_height = frame.body.height();
}

}  // namespace

void draw_timeline_strip(const PanelContext& context, const Document& document,
                         const std::string& slot, const StripStyle& style, const Box& box,
                         const TimelineView& view) {
  if (box.width() < kTimelineStripGutter + 8 || box.height() < 8 || document.trace.slice_count == 0)
    return;
  const Box body{box.x0 + kTimelineStripGutter, box.y0, box.x1, box.y1};
  TimelineFrame frame = make_frame(context, document, body, view, 1);
  if (frame.length() <= 0) return;
  fit_rows(frame, style.messages);
  draw_slices(frame, slot);
  draw_steps(frame);
  if (style.labels) {
    draw_list().PushClipRect(frame.body.min(), frame.body.max(), true);
    draw_slice_labels(frame);
    draw_list().PopClipRect();
  }
  draw_playhead(frame);
  draw_gutter(frame, {box.x0, frame.body.y0, frame.body.x0, frame.body.y1});
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  if (!ImGui::IsWindowHovered() || !frame.body.contains(mouse)) return;
  const std::optional<SliceId> slice =
      slice_at(frame.trace(), frame.document.axis, frame.mode, frame.layout, frame.view,
               mouse.x - frame.body.x0, mouse.y - frame.body.y0);
  if (slice) draw_slice_tooltip(frame, *slice);
}

void draw_timeline_strip_ruler(const PanelContext& context, const Document& document,
                               const Box& box, const TimelineView& view) {
  const Box ruler{box.x0 + kTimelineStripGutter, box.y0, box.x1, box.y1};
  if (ruler.width() >= 8 && ruler.height() >= 8)
    draw_ruler(make_frame(context, document, ruler, view, 1), ruler);
}

}  // namespace ringscope::viz

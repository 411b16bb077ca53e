// Assembles the timeline of the active document: ruler, map, names, slices, and everything drawn
// over them.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {
namespace {

constexpr float kRulerHeight = 24, kMap = 14, kMapGap = 3;
constexpr float kLeastBody = 40;  // pixels; a smaller panel stays empty

// Draw a scroll bar if the rows don't fit the body.
void draw_scroll_bar(const TimelineFrame& frame) {
  const float content = frame.layout.content_height, height = frame.body.height();
  if (content <= height) return;
  const float size = std::max(20.0f, height * height / content);
  const float top = frame.body.y0 +
                    (height - size) * static_cast<float>(frame.view.scroll_y) / (content - height);
  fill({frame.body.x1 - 5, top, frame.body.x1 - 1, top + size},
       with_alpha(frame.context.palette.text_dim, 0.6), 2);
}

// Turn the page when the playhead leaves the view while playing.
void follow_playhead(Session& session, TimelineState& state) {
  const double position = session.playback.position();
  const TimelineView& view = session.view;
  if (session.playback.playing() && state.playhead <= view.end && position > view.end)
    session.view = panned(view, position - view.begin - 0.05 * view.width(), session.length());
  state.playhead = position;
}

// Scroll to a newly selected slice, because keys or other panels can select one out of view.
void follow_selection(Session& session, TimelineState& state, const TimelineFrame& frame) {
  if (session.selected != state.selected && session.selected) {
    if (const RowPlace* place = frame.layout.place_of(session.selected->row)) {
      const double height = frame.body.height(), top = place->y;
      const double bottom = top + place->height;
      if (bottom <= frame.view.scroll_y || top >= frame.view.scroll_y + height)
        session.view.scroll_y = (top + bottom - height) / 2;
    }
  }
  state.selected = session.selected;
}

// Lead from a rank's slices back to all ranks, from the corner over the rank names.
void draw_way_back(const PanelContext& context, const Box& corner) {
  Session& session = context.session;
  if (session.document().trace.ranks.size() <= Session::kMostInSlices) return;
  const Touch touched = touch("all ranks", corner);
  draw_text(context.fonts.small, {corner.x0 + 6, corner.y0 + 4}, {0, 0},
            touched.hovered ? context.palette.text : context.palette.accent, "all",
            corner.width() - 8);
  if (touched.clicked) session.show_overview(true);
}

void draw_nothing(const PanelContext& context, const Box& box) {
  const Trace& trace = context.session.document().trace;
  if (trace.slice_count == 0)
    draw_empty(context, box, "Nothing was recorded", "This trace holds no slices of time.");
  else
    draw_empty(context, box, "No ring steps here", "This trace can be shown in time only.");
}

}  // namespace

void draw_timeline(const PanelContext& context) {
  Session& session = context.session;
  const Box all = content_box();
  fill(all, context.palette.panel);
  if (all.width() < kLeastBody || all.height() < kRulerHeight + kMap + kLeastBody) return;
  if (session.document().trace.slice_count == 0 || session.length() <= 0) {
    draw_nothing(context, all);
    return;
  }
  TimelineState& state = timeline_state();
  const float top = all.y0 + kRulerHeight + kMap + kMapGap;
  const auto make = [&](float left) {
    return make_frame(context, session.document(), {left, top, all.x1, all.y1}, session.view,
                      state.row_scale);
  };
  const float gutter = std::min(gutter_width(make(all.x0)), all.width() / 3);
  const float left = std::floor(all.x0 + gutter);
  follow_playhead(session, state);
  follow_selection(session, state, make(left));
  {
    const TimelineFrame before = make(left);
    state.gutter = {all.x0, before.body.y0, left, before.body.y1};
    state.ruler = {left, all.y0, before.body.x1, all.y0 + kRulerHeight};
    state.map = {left, all.y0 + kRulerHeight + 1, before.body.x1, all.y0 + kRulerHeight + 1 + kMap};
    touch_ruler(before, state.ruler);
    touch_map(before, state.map);
    touch_gutter(before, state.gutter);
    touch_body(before);
  }
  const TimelineFrame frame = make(left);
  session.view.scroll_y = frame.view.scroll_y;
  state.body = frame.body;
  state.layout = frame.layout;
  draw_body(frame, "timeline");
  draw_gutter(frame, state.gutter);
  draw_map(frame, state.map);
  draw_ruler(frame, state.ruler);
  draw_scroll_bar(frame);
  draw_way_back(context, {all.x0, all.y0, left, top});
  if (state.hovered_is_ours && session.hovered && state.gesture == TimelineState::Gesture::none)
    draw_slice_tooltip(frame, *session.hovered);
}

// ---

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

void touch_timeline_strips(const PanelContext& context, const Document& document, const Box& ruler,
                           const Box& first, const Box& last) {
  const float x0 = first.x0 + kTimelineStripGutter;
  const Box body{x0, first.y0, first.x1, last.y1};
  if (body.width() < 8 || body.height() < 8 || document.trace.slice_count == 0) return;
  const TimelineFrame frame = make_frame(context, document, body, context.session.view, 1);
  touch_ruler(frame, {x0, ruler.y0, ruler.x1, ruler.y1});
  if (ImGui::IsItemActive()) context.session.playback.pause();
  touch_strips(frame);
}

void draw_timeline_strip_ruler(const PanelContext& context, const Document& document,
                               const Box& box, const TimelineView& view) {
  const Box ruler{box.x0 + kTimelineStripGutter, box.y0, box.x1, box.y1};
  if (ruler.width() >= 8 && ruler.height() >= 8)
    draw_ruler(make_frame(context, document, ruler, view, 1), ruler);
}

}  // namespace ringscope::viz

// Assembles the timeline of the active document: ruler, map, names, slices, and everything drawn
// over them.
#include <algorithm>
#include <cmath>

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
  if (state.hovered_is_ours && session.hovered && state.gesture == TimelineState::Gesture::none)
    draw_slice_tooltip(frame, *session.hovered);
}

}  // namespace ringscope::viz

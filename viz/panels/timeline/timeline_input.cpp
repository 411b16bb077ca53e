#include "viz/panels/timeline/timeline_frame.h"

#include <algorithm>
#include <cmath>

namespace ringscope::viz {
namespace {

using Gesture = TimelineState::Gesture;

constexpr float kClickReach = 4;  // pixels that the mouse may move during a click
constexpr double kRowNotch = 1.15;
constexpr float kScrollNotch = 44;  // pixels
constexpr float kLeastRowScale = 0.25f, kMostRowScale = 8;
constexpr double kOneZoom_s = 0.7;  // closer notches count as one step of going back

// Begin a box that is sensitive to any mouse button.
bool begin_touch(const char* id, const Box& box) {
  if (box.width() < 1 || box.height() < 1) return false;
  ImGui::SetCursorScreenPos(box.min());
  ImGui::InvisibleButton(id, {box.width(), box.height()},
                         ImGuiButtonFlags_MouseButtonLeft | ImGuiButtonFlags_MouseButtonRight |
                             ImGuiButtonFlags_MouseButtonMiddle);
  return true;
}

double scrolled(const TimelineFrame& frame, double y) {
  const double most =
      std::max(0.0, static_cast<double>(frame.layout.content_height - frame.body.height()));
  return std::clamp(y, 0.0, most);
}

// Scale the rows, for Ctrl + wheel. The row under the mouse stays under it.
void scale_rows(const TimelineFrame& frame, float wheel) {
  TimelineState& state = timeline_state();
  const float before = state.row_scale;
  state.row_scale =
      std::clamp(before * static_cast<float>(std::pow(kRowNotch, static_cast<double>(wheel))),
                 kLeastRowScale, kMostRowScale);
  const TimelineLayout after =
      make_frame(frame.context, frame.document, frame.body, frame.view, state.row_scale).layout;
  if (after.content_height == frame.layout.content_height) {
    state.row_scale = before;  // it has reached its limit
    return;
  }
  const double y = ImGui::GetIO().MousePos.y - frame.body.y0;
  const double grown = after.content_height / std::max(1.0f, frame.layout.content_height);
  Session& session = frame.context.session;
  session.view.scroll_y =
      std::clamp((frame.view.scroll_y + y) * grown - y, 0.0,
                 std::max(0.0, static_cast<double>(after.content_height - frame.body.height())));
}

void zoom(const TimelineFrame& frame, float wheel) {
  Session& session = frame.context.session;
  TimelineState& state = timeline_state();
  TimelineView next =
      zoomed(frame.view, frame.position_at(ImGui::GetIO().MousePos.x),
             std::pow(kZoomNotch, static_cast<double>(wheel)), frame.length(), frame.mode);
  next.scroll_y = frame.view.scroll_y;
  const double now = ImGui::GetTime();
  if (now - state.last_zoom_s > kOneZoom_s)
    session.set_view(next);
  else
    session.view = next;
  state.last_zoom_s = now;
}

void turn_wheel(const TimelineFrame& frame, bool zooms) {
  const ImGuiIO& io = ImGui::GetIO();
  if ((io.MouseWheel == 0 && io.MouseWheelH == 0) || frame.length() <= 0) return;
  Session& session = frame.context.session;
  timeline_state().touched = true;
  if (io.MouseWheelH != 0)
    session.view = panned(session.view, 0.08 * io.MouseWheelH * frame.view.width(), frame.length());
  if (io.MouseWheel == 0) return;
  if (io.KeyCtrl)
    scale_rows(frame, io.MouseWheel);
  else if (io.KeyShift || !zooms)
    session.view.scroll_y = scrolled(frame, frame.view.scroll_y - kScrollNotch * io.MouseWheel);
  else
    zoom(frame, io.MouseWheel);
}

double snapped_position(const TimelineFrame& frame, ImVec2 at) {
  const std::optional<double> edge =
      snapped_edge(frame.trace(), frame.document.axis, frame.mode, frame.layout, frame.view,
                   at.x - frame.body.x0, at.y - frame.body.y0);
  return edge ? *edge : std::clamp(frame.position_at(at.x), 0.0, frame.length());
}

// Continue a drag that began at `before`. Going back undoes the drag as a whole.
void drag_to(Session& session, const TimelineView& before, const TimelineView& next) {
  if (session.view == before)
    session.set_view(next);
  else
    session.view = next;
}

void pan(const TimelineFrame& frame) {
  const TimelineState& state = timeline_state();
  const TimelineView& before = state.pressed_view;
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const double position_a_pixel = before.width() / std::max(1.0f, frame.body.width());
  TimelineView next =
      panned(before, (state.pressed_at.x - mouse.x) * position_a_pixel, frame.length());
  next.scroll_y = scrolled(frame, before.scroll_y + state.pressed_at.y - mouse.y);
  drag_to(frame.context.session, before, next);
}

void drag_body(const TimelineFrame& frame) {
  Session& session = frame.context.session;
  TimelineState& state = timeline_state();
  const ImGuiIO& io = ImGui::GetIO();
  const float moved = std::max(std::abs(io.MousePos.x - state.pressed_at.x),
                               std::abs(io.MousePos.y - state.pressed_at.y));
  if (state.gesture == Gesture::press && moved > kClickReach) {
    const bool measures = io.MouseDown[0] && !io.KeyShift;
    state.gesture = measures ? Gesture::measure : Gesture::pan;
    if (measures) {
      const double from = snapped_position(frame, state.pressed_at);
      session.measure = Measure{from, from};
    }
  }
  if (state.gesture == Gesture::measure && session.measure) {
    session.measure->to = snapped_position(frame, io.MousePos);
    session.measure->ranks =
        ranks_between(frame.layout, frame.view, state.pressed_at.y - frame.body.y0,
                      io.MousePos.y - frame.body.y0);
  } else if (state.gesture == Gesture::pan) {
    ImGui::SetMouseCursor(ImGuiMouseCursor_ResizeAll);
    pan(frame);
  }
}

void click_body(const TimelineFrame& frame) {
  Session& session = frame.context.session;
  const std::optional<SliceId> slice = frame.slice_under_mouse();
  session.measure.reset();
  if (slice)
    session.go_to(*slice);
  else
    session.select_rank(-1);
}

}  // namespace

void touch_body(const TimelineFrame& frame) {
  Session& session = frame.context.session;
  TimelineState& state = timeline_state();
  if (!begin_touch("##body", frame.body)) return;
  const ImGuiIO& io = ImGui::GetIO();
  const bool hovered = ImGui::IsItemHovered();
  if (ImGui::IsItemActivated()) {
    state.gesture = Gesture::press;
    state.pressed_at = io.MousePos;
    state.pressed_view = frame.view;
    state.touched = true;
  }
  if (ImGui::IsItemActive()) drag_body(frame);
  if (ImGui::IsItemDeactivated()) {
    if (state.gesture == Gesture::press && ImGui::IsMouseReleased(ImGuiMouseButton_Left))
      click_body(frame);
    state.gesture = Gesture::none;
  }
  if (hovered && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) {
    if (const std::optional<SliceId> slice = frame.slice_under_mouse())
      session.set_view(session.view_of(*slice));
    state.gesture = Gesture::none;  // its release is not another click
  }
  if (hovered) turn_wheel(frame, true);
  // A slice that another panel has set stays until the mouse comes here.
  const bool points = hovered && state.gesture != Gesture::pan;
  if (points)
    session.hovered = frame.slice_under_mouse();
  else if (state.hovered_is_ours)
    session.hovered.reset();
  state.hovered_is_ours = points;
}

void touch_strips(const TimelineFrame& frame) {
  if (!begin_touch("##strips", frame.body) || frame.length() <= 0) return;
  TimelineState& state = timeline_state();
  if (ImGui::IsItemActivated()) {
    state.pressed_at = ImGui::GetIO().MousePos;
    state.pressed_view = frame.view;
  }
  if (ImGui::IsItemActive()) {
    ImGui::SetMouseCursor(ImGuiMouseCursor_ResizeAll);
    pan(frame);
  }
  const float wheel = ImGui::GetIO().MouseWheel;
  if (ImGui::IsItemHovered() && wheel != 0) zoom(frame, wheel);
}

void touch_ruler(const TimelineFrame& frame, const Box& ruler) {
  if (!begin_touch("##ruler", ruler) || frame.length() <= 0) return;
  if (ImGui::IsItemActive() && ImGui::IsMouseDown(ImGuiMouseButton_Left))
    frame.context.session.seek(frame.position_at(ImGui::GetIO().MousePos.x));
  if (ImGui::IsItemHovered()) {
    ImGui::SetMouseCursor(ImGuiMouseCursor_ResizeEW);
    turn_wheel(frame, true);
  }
}

void touch_notes(Session& session, const std::vector<NoteFlag>& flags) {
  for (const NoteFlag& flag : flags) {
    ImGui::PushID(flag.note);
    const Touch touched = touch("note", flag.box);
    ImGui::PopID();
    if (touched.hovered) ImGui::SetMouseCursor(ImGuiMouseCursor_Hand);
    if (touched.clicked) return session.go_to(*flag.note);
  }
}

void touch_map(const TimelineFrame& frame, const Box& map) {
  if (!begin_touch("##map", map) || frame.length() <= 0) return;
  Session& session = frame.context.session;
  if (ImGui::IsItemActivated()) {
    timeline_state().pressed_view = frame.view;
    timeline_state().touched = true;
  }
  if (ImGui::IsItemActive()) {
    const double at = frame.length() * (ImGui::GetIO().MousePos.x - map.x0) / map.width();
    const double middle = (frame.view.begin + frame.view.end) / 2;
    drag_to(session, timeline_state().pressed_view,
            panned(frame.view, at - middle, frame.length()));
  }
  if (ImGui::IsItemHovered()) turn_wheel(frame, true);
}

void touch_gutter(const TimelineFrame& frame, const Box& gutter) {
  if (!begin_touch("##gutter", gutter)) return;
  if (ImGui::IsItemHovered()) turn_wheel(frame, false);
  if (!ImGui::IsItemHovered()) return;
  Session& session = frame.context.session;
  const float y = ImGui::GetIO().MousePos.y - frame.body.y0;
  for (const int rank : ranks_between(frame.layout, frame.view, y, y + 1)) {
    if (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) session.fold(rank);
    if (ImGui::IsMouseClicked(ImGuiMouseButton_Left))
      session.select_rank(session.selected_rank == rank ? -1 : rank);
    if (ImGui::IsMouseClicked(ImGuiMouseButton_Right)) session.pin(rank);
  }
}

}  // namespace ringscope::viz

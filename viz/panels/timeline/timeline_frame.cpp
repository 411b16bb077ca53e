#include "viz/panels/timeline/timeline_frame.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "viz/model/session/format.h"

namespace ringscope::viz {

namespace {

std::map<ImGuiContext*, TimelineState>& states() {
  static std::map<ImGuiContext*, TimelineState> all;
  return all;
}

}  // namespace

TimelineState& timeline_state() {
  ImGuiContext* context = ImGui::GetCurrentContext();
  const auto [at, made] = states().try_emplace(context);
  if (made) {
    // Textures die with their context, so what is known about them must die too.
    ImGuiContextHook hook;
    hook.Type = ImGuiContextHookType_Shutdown;
    hook.Callback = [](ImGuiContext* ended, ImGuiContextHook*) { states().erase(ended); };
    ImGui::AddContextHook(context, &hook);
  }
  return at->second;
}

float TimelineFrame::x_at(double position) const {
  const double width = view.width();
  const double share = width > 0 ? (position - view.begin) / width : 0;
  // Floats hold pixels exactly up to 2^24, and nothing beyond a few widths is ever visible.
  return body.x0 + static_cast<float>(std::clamp(share, -8.0, 9.0) * body.width());
}

float TimelineFrame::x_at(int rank, std::int64_t ns) const {
  return x_at(document.axis.position(mode, rank, ns));
}

double TimelineFrame::position_at(float screen_x) const {
  return layout.position_at(view, screen_x - body.x0);
}

std::optional<Box> TimelineFrame::row_box(std::uint32_t row) const {
  const RowPlace* place = layout.place_of(row);
  if (place == nullptr) return std::nullopt;
  const float y0 = y_at(place->y);
  const float y1 = y0 + place->height;
  if (y1 <= body.y0 || y0 >= body.y1) return std::nullopt;
  return Box{body.x0, y0, body.x1, y1};
}

std::optional<Box> TimelineFrame::slice_box(SliceId id) const {
  const std::optional<Box> row = row_box(id.row);
  if (!row) return std::nullopt;
  const Slice& slice = trace().slice(id);
  const int rank = rank_of(id.row);
  const float x0 = x_at(rank, slice.begin_ns);
  const float x1 = std::max(x_at(rank, slice.end_ns), x0 + 1);
  if (x1 < body.x0 || x0 > body.x1) return std::nullopt;
  return Box{std::max(x0, body.x0 - 8), row->y0, std::min(x1, body.x1 + 8), row->y1};
}

std::pair<std::uint32_t, std::uint32_t> TimelineFrame::visible(std::uint32_t row) const {
  const int rank = rank_of(row);
  return slices_near(trace().rows[row].slices, document.axis.time_at(mode, rank, view.begin),
                     document.axis.time_at(mode, rank, view.end));
}

int TimelineFrame::step_of(const Slice& slice) const {
  return slice.step < 0 ? -1 : axis_step(slice, document.axis.forward_steps());
}

TimelineFrame make_frame(const PanelContext& context, const Document& shown, const Box& body,
                         const TimelineView& view, float row_scale) {
  // Use whole pixels, so that the picture of the slices lies on the screen's pixels.
  const Box whole{std::floor(body.x0), std::floor(body.y0), std::floor(body.x1),
                  std::floor(body.y1)};
  TimelineFrame frame{context,
                      shown,
                      context.session.axis_mode,
                      view,
                      make_layout(shown.trace, whole.width(), whole.height(), row_scale),
                      whole,
                      &shown == &context.session.document()};
  const double beyond = std::max(0.0f, frame.layout.content_height - whole.height());
  frame.view.scroll_y = std::clamp(view.scroll_y, 0.0, beyond);
  return frame;
}

std::string step_name(const Axis& axis, int step) {
  return fmt::format("{} {}", axis.is_backward(step) ? "back" : "step", axis.ring_step(step));
}

std::string position_name(const TimelineFrame& frame, double position) {
  const Axis& axis = frame.document.axis;
  if (frame.mode == AxisMode::time || axis.steps() == 0) return time_text(position);
  const int step = std::clamp(static_cast<int>(std::floor(position)), 0, axis.steps() - 1);
  const int percent = static_cast<int>(std::lround(100 * (position - step)));
  return percent == 0 ? step_name(axis, step)
                      : fmt::format("{} · {} %", step_name(axis, step), percent);
}

std::string slice_title(const Trace& trace, const Slice& slice) {
  const bool named = slice.kind == Kind::communication || slice.kind == Kind::other;
  if (!trace.is_ring() || named) return std::string(trace.name(slice));
  if (slice.kind == Kind::wait) return fmt::format("wait for {}", slice.peer);
  const std::string block =
      fmt::format("{} {}", slice.payload == Payload::dkv ? "dKV" : "KV", slice.kv_owner);
  if (slice.kind == Kind::compute) return block;
  return fmt::format("{} {} {}", block, preposition(slice.kind), slice.peer);
}

void draw_slices(const TimelineFrame& frame, const std::string& slot) {
  const Session& session = frame.context.session;
  PictureKey key;
  key.color_by = session.color_by;
  key.dim_all = session.show_critical_path && !frame.document.path.segments.empty();
  key.view = frame.view;
  key.content_height = frame.layout.content_height;
  draw_picture(frame, slot, key, frame.body, [&](Image& image) {
    paint_timeline(frame.trace(), frame.document.axis, frame.document.index, frame.layout,
                   frame.view, {frame.mode, key.color_by, session.theme, key.dim_all}, image);
  });
}

void draw_body(const TimelineFrame& frame, const std::string& slot) {
  draw_list().PushClipRect(frame.body.min(), frame.body.max(), true);
  draw_slices(frame, slot);
  draw_steps(frame);
  draw_critical_path(frame);
  draw_slice_labels(frame);
  draw_pointing(frame);
  draw_flows(frame);
  draw_failure_marks(frame);
  draw_found(frame);
  draw_selection(frame);
  draw_measure(frame);
  draw_playhead(frame);
  draw_list().PopClipRect();
}

}  // namespace ringscope::viz

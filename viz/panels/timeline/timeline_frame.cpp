#include "viz/panels/timeline/timeline_frame.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cmath>

#include "viz/panels/format.h"

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
  if (place == nullptr) {
    return std::nullopt;
  }
  const float y0 = body.y0 + place->y - static_cast<float>(view.scroll_y);
  const float y1 = y0 + place->height;
  if (y1 <= body.y0 || y0 >= body.y1) {
    return std::nullopt;
  }
  return Box{body.x0, y0, body.x1, y1};
}

std::optional<Box> TimelineFrame::slice_box(SliceId id) const {
  const std::optional<Box> row = row_box(id.row);
  if (!row) {
    return std::nullopt;
  }
  const Slice& slice = trace().slice(id);
  const int rank = rank_of(id.row);
  const float x0 = x_at(rank, slice.begin_ns);
  const float x1 = std::max(x_at(rank, slice.end_ns), x0 + 1);
  if (x1 < body.x0 || x0 > body.x1) {
    return std::nullopt;
  }
  return Box{std::max(x0, body.x0 - 8), row->y0, std::min(x1, body.x1 + 8), row->y1};
}

std::pair<std::uint32_t, std::uint32_t> TimelineFrame::visible(std::uint32_t row) const {
  const int rank = rank_of(row);
  const std::int64_t begin = document.axis.time_at(mode, rank, view.begin);
  const std::int64_t end = document.axis.time_at(mode, rank, view.end);
  const std::vector<Slice>& slices = trace().rows[row].slices;
  const auto first = std::partition_point(
      slices.begin(), slices.end(), [begin](const Slice& slice) { return slice.end_ns < begin; });
  const auto last = std::partition_point(
      first, slices.end(), [end](const Slice& slice) { return slice.begin_ns <= end; });
  return {static_cast<std::uint32_t>(first - slices.begin()),
          static_cast<std::uint32_t>(last - slices.begin())};
}

int TimelineFrame::step_of(const Slice& slice) const {
  if (slice.step < 0) {
    return -1;
  }
  return slice.pass == Pass::forward ? slice.step : document.axis.forward_steps() + slice.step;
}

TimelineFrame make_frame(const PanelContext& context, std::size_t document, const Box& body,
                         const TimelineView& view, float row_scale) {
  const Session& session = context.session;
  return make_frame(context, session.documents[document], document == session.active, body, view,
                    row_scale);
}

TimelineFrame make_frame(const PanelContext& context, const Document& shown, bool active,
                         const Box& body, const TimelineView& view, float row_scale) {
  // Use whole pixels, so that the picture of the slices lies on the screen's pixels.
  const Box whole{std::floor(body.x0), std::floor(body.y0), std::floor(body.x1),
                  std::floor(body.y1)};
  TimelineFrame frame{context,
                      shown,
                      context.session.axis_mode,
                      view,
                      make_layout(shown.trace, whole.width(), whole.height(), row_scale),
                      whole,
                      *ImGui::GetWindowDrawList(),
                      active};
  const double beyond = std::max(0.0f, frame.layout.content_height - whole.height());
  frame.view.scroll_y = std::clamp(view.scroll_y, 0.0, beyond);
  return frame;
}

std::string step_name(const Axis& axis, int step) {
  return step < axis.forward_steps() ? fmt::format("step {}", step)
                                     : fmt::format("back {}", step - axis.forward_steps());
}

std::string position_name(const TimelineFrame& frame, double position) {
  const Axis& axis = frame.document.axis;
  if (frame.mode == AxisMode::time || axis.steps() == 0) {
    return time_text(position);
  }
  const int step = std::clamp(static_cast<int>(std::floor(position)), 0, axis.steps() - 1);
  const int percent = static_cast<int>(std::lround(100 * (position - step)));
  return percent == 0 ? step_name(axis, step)
                      : fmt::format("{} · {} %", step_name(axis, step), percent);
}

std::string slice_title(const Trace& trace, const Slice& slice) {
  if (!trace.is_ring()) {
    return std::string(trace.name(slice));
  }
  const std::string block =
      fmt::format("{} {}", slice.payload == Payload::dkv ? "dKV" : "KV", slice.kv_owner);
  switch (slice.kind) {
    case Kind::compute:
      return fmt::format("KV {}", slice.kv_owner);
    case Kind::send:
      return fmt::format("{} to {}", block, slice.peer);
    case Kind::recv:
      return fmt::format("{} from {}", block, slice.peer);
    case Kind::wait:
      return fmt::format("wait for {}", slice.peer);
    case Kind::communication:
    case Kind::other:
      break;
  }
  return std::string(trace.name(slice));
}

void draw_slices(const TimelineFrame& frame, const std::string& slot) {
  const Session& session = frame.context.session;
  const Trace& trace = frame.trace();
  const PictureKey key{&trace,
                       trace.slice_count,
                       trace.path,
                       frame.mode,
                       session.color_by,
                       session.theme,
                       session.show_critical_path && !frame.document.path.segments.empty(),
                       frame.view,
                       static_cast<int>(frame.body.width()),
                       static_cast<int>(frame.body.height()),
                       frame.layout.content_height};
  Picture& picture = timeline_state().pictures[slot];
  if (picture.texture == nullptr || !(picture.key == key)) {
    if (picture.image.width != key.width || picture.image.height != key.height) {
      picture.image = Image(key.width, key.height);
    }
    const TimelinePaint paint{key.mode, key.color_by, key.theme, key.dim_all};
    paint_timeline(trace, frame.document.axis, frame.document.index, frame.layout, frame.view,
                   paint, picture.image);
    picture.texture = frame.context.textures.update(slot, picture.image);
    picture.key = key;
  }
  frame.list.AddImage(picture.texture, frame.body.min(), frame.body.max());
}

void draw_body(const TimelineFrame& frame, const std::string& slot) {
  frame.list.PushClipRect(frame.body.min(), frame.body.max(), true);
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
  frame.list.PopClipRect();
}

}  // namespace ringscope::viz

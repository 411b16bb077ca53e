#include "viz/panels/timeline/timeline_frame.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "viz/data/analysis/wait_reason.h"
#include "viz/data/session/format.h"

namespace ringscope::viz {
namespace {

std::map<ImGuiContext*, TimelineState>& states() {
  static std::map<ImGuiContext*, TimelineState> all;
  return all;
}

// ---
// Assembles the timeline of the active document: ruler, map, names, slices, and everything drawn
// over them.

constexpr float kRulerHeight = 24, kMap = 14, kMapGap = 3, kLegend = 24;
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

// Say below it what a length is in time. Steps of the step axis differ in that.
void draw_scale_key(const TimelineFrame& frame, const Box& corner) {
  const Session& session = frame.context.session;
  const int step = std::max(session.step_now(session.active), 0);
  const float x0 = corner.x0 + 6, y = corner.y1 - 6;
  const ScaleKey key = scale_key(frame.document.axis, frame.mode, frame.view, step,
                                 frame.body.width(), std::min(corner.width() - 12, 72.0f));
  if (key.ns == 0) return;
  const Color color = frame.context.palette.text_dim;
  const float x1 = x0 + std::round(key.pixels);
  fill({x0, y, x1, y + 1}, color);
  for (const float x : {x0, x1 - 1}) fill({x, y - 3, x + 1, y + 4}, color);
  draw_label(frame.context, {x0, y - 2}, {0, 1}, words_of_time(key.ns));
  if (frame.mode == AxisMode::steps &&
      touch("scale key", {corner.x0, y - 16, corner.x1, corner.y1}).hovered)
    draw_meaning(frame.context,
                 fmt::format("In {}. A step is as wide as any other, and as long as on its slowest "
                             "rank.",
                             step_name(frame.document.axis, step)));
}

// Return what colours mean: of the parts of kernels, or in a picture of the timeline alone, in which
// nothing can be pointed at, of owners or kinds.
std::vector<Swatch> legend_of(const Session& session) {
  const Trace& trace = session.document().trace;
  const bool owners = session.look.color_by == ColorBy::owner;
  std::vector<Swatch> swatches;
  if (trace.has_kernel() && owners) {
    for (const KernelPart part : kAllKernelParts) {
      const std::string name(name_of(part));  // in the recording alone or before a tile's number
      if (std::any_of(trace.names.begin(), trace.names.end(), [&](const std::string& given) {
            return given == name || given.starts_with(name + " ");
          }))
        swatches.push_back({kernel_color(session.look.theme, part), name});
    }
  } else if (session.panels.bare && session.panels.alone && trace.is_ring &&
             trace.rank_count() <= kOwnerClasses) {
    swatches = owner_swatches(session);
    for (const Lane lane : kAllLanes)
      if (lane == Lane::wait || !owners)
        swatches.push_back({palette_of(session.look.theme).of(lane), std::string(name_of(lane))});
  }
  return swatches;
}

void draw_nothing(const PanelContext& context, const Box& box) {
  const Trace& trace = context.session.document().trace;
  if (trace.slice_count == 0)
    draw_empty(context, box, "Nothing was recorded", "This trace holds no slices of time.");
  else
    draw_empty(context, box, "No ring steps here", "This trace can be shown in time only.");
}

// ---

constexpr float kLeastRow = 2;  // pixels

// Fit the rows to a strip, which doesn't scroll and is for comparing. Of a ring it shows computing
// above waiting, and messages only if asked for. Ranks shrink as needed; where rows would be too
// low to be seen, each rank shows only its computing.
void fit_rows(TimelineFrame& frame, bool messages) {
  TimelineLayout& layout = frame.layout;
  const Trace& trace = frame.trace();
  float shown_ranks = 0;
  for (int r = 0; r < trace.rank_count(); ++r) shown_ranks += is_unrecorded(trace, r) ? 0 : 1;
  if (shown_ranks == 0) return;
  const float height = frame.body.height() / shown_ranks;
  const float gap = height >= 12 ? 4.0f : 0.0f;
  layout = {layout.width, layout.height, layout.height, {}, {}, {}};
  for (int r = 0; r < trace.rank_count(); ++r) {
    if (is_unrecorded(trace, r)) continue;
    const float y = height * layout.ranks.size();
    layout.ranks.push_back({r, y, height - gap});
    std::vector<std::uint32_t> rows;
    if (trace.is_ring) {
      for (const Lane lane : {Lane::compute, Lane::recv, Lane::wait})
        if (messages || lane != Lane::recv) rows.push_back(trace.row_of(r, lane));
    } else {
      const RankTrack& rank = trace.ranks[r];
      for (std::uint32_t l = rank.first_lane; l < rank.first_lane + rank.lanes; ++l)
        for (std::uint32_t k = 0; k < trace.lanes[l].rows; ++k)
          rows.push_back(trace.lanes[l].first_row + k);
    }
    const float share = (height - gap) / std::max<std::size_t>(1, rows.size());
    const std::size_t shown =
        share < kLeastRow ? std::min<std::size_t>(1, rows.size()) : rows.size();
    // Computing stays the most visible row among messages.
    const bool first_higher = messages && trace.is_ring && shown > 1;
    const float parts = std::max<std::size_t>(1, shown) + (first_higher ? 1 : 0);
    const float row_height = std::max(1.0f, (height - gap) / parts);
    float row_y = y;
    for (std::size_t k = 0; k < shown; ++k) {
      const float high = k == 0 && first_higher ? 2 * row_height : row_height;
      layout.add({rows[k], row_y, high});
      row_y += high;
    }
  }
}

// Draw the slices. Their picture is in texture slot `slot`.
void draw_slices(const TimelineFrame& frame, const std::string& slot) {
  const Session& session = frame.context.session;
  const bool dim_all = session.look.critical_path && !frame.document.path().segments.empty();
  const auto paint = [&](Image& image) {
    TimelineLayout layout = frame.layout;
    TimelineView view = frame.view;
    for (RowPlace& place : layout.rows) {
      place.y *= frame.fineness();
      place.height *= frame.fineness();
    }
    view.scroll_y *= frame.fineness();
    paint_timeline(frame.trace(), frame.document.axis, frame.document.index, layout, view,
                   {frame.mode, session.look.color_by, session.look.theme, dim_all}, image);
  };
  draw_picture(frame, slot, frame.body, paint, session.look.color_by, dim_all, frame.view,
               frame.layout.content_height, session.order.pinned, session.order.folded);
}

// Draw them, and everything that lies over them.
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

std::vector<Box> TimelineFrame::slice_boxes(SliceId id) const {
  std::vector<Box> boxes;
  const std::optional<Box> row = row_box(id.row);
  if (!row) return boxes;
  for (const auto& [begin, end] : document.axis.places(mode, rank_of(id.row), trace().slice(id))) {
    const float x0 = x_at(begin), x1 = std::max(x_at(end), x0 + 1);
    if (x1 >= body.x0 && x0 <= body.x1)
      boxes.push_back({std::max(x0, body.x0 - 8), row->y0, std::min(x1, body.x1 + 8), row->y1});
  }
  return boxes;
}

std::optional<Box> TimelineFrame::slice_box(SliceId id) const {
  const std::vector<Box> boxes = slice_boxes(id);
  const auto widest = std::max_element(
      boxes.begin(), boxes.end(), [](const Box& a, const Box& b) { return a.width() < b.width(); });
  return widest == boxes.end() ? std::nullopt : std::optional(*widest);
}

std::pair<std::uint32_t, std::uint32_t> TimelineFrame::visible(std::uint32_t row) const {
  const int rank = rank_of(row);
  return slices_near(trace().slices(row), document.axis.time_at(mode, rank, view.begin),
                     document.axis.time_at(mode, rank, view.end));
}

std::optional<SliceId> TimelineFrame::slice_under_mouse() const {
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  return slice_at(trace(), document.axis, mode, layout, view, mouse.x - body.x0, mouse.y - body.y0);
}

int TimelineFrame::step_of(const TraceEvent& slice) const {
  return axis_step(slice, document.axis.forward_steps());
}

TimelineFrame make_frame(const PanelContext& context, const Document& shown, const Box& body,
                         const TimelineView& view, float row_scale) {
  // Use whole pixels, so that the picture of the slices lies on the screen's pixels.
  const Box whole{std::floor(body.x0), std::floor(body.y0), std::floor(body.x1),
                  std::floor(body.y1)};
  const bool active = &shown == &context.session.document();
  TimelineFrame frame{context, shown, context.session.axis_mode, view, {}, whole, active};
  const auto has_slices = [&](std::uint32_t row) {
    const TimelineIndex::RowIndex& slices = shown.index.row(row);
    const int rank = frame.rank_of(row);
    const auto first = std::lower_bound(slices.ends.begin(), slices.ends.end(),
                                        shown.axis.time_at(frame.mode, rank, view.begin));
    return first != slices.ends.end() && slices.begins[first - slices.ends.begin()] <=
                                             shown.axis.time_at(frame.mode, rank, view.end);
  };
  frame.layout = make_layout(shown.trace, whole.width(), whole.height(), row_scale,
                             active ? context.session.order : RankOrder{}, has_slices);
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
  const int percent = std::lround(100 * (position - step));
  return percent == 0 ? step_name(axis, step)
                      : fmt::format("{} · {} %", step_name(axis, step), percent);
}

std::string slice_title(const Trace& trace, SliceId id) {
  const TraceEvent& slice = trace.slice(id);
  const bool named = slice.lane == Lane::communication || slice.lane == Lane::other;
  if (!trace.is_ring || named) return std::string(trace.name(slice));
  if (slice.lane == Lane::wait) return "wait for " + words_of_awaited(trace, id);
  if (slice.lane == Lane::compute) return fmt::format("KV {}", slice.kv_owner);
  return fmt::format("{} {} {}", name_of_message(trace, slice), preposition(slice.lane),
                     slice.peer());
}

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
  const bool print = session.panels.print;
  const float top = all.y0 + kRulerHeight + (print ? 0 : kMap + kMapGap);
  std::vector<Swatch> swatches = legend_of(session);
  if (print)  // nothing can be pointed at
    for (const Note& note : session.document().notes)
      swatches.push_back({context.palette.accent, fitted(context.fonts.small,
                                                         place_of(session.document().trace, note) +
                                                             ": " + note.first_line(),
                                                         all.width() - 30)});
  const float legend = print ? legend_height(context.fonts, all.width(), swatches) : kLegend;
  float bottom = all.y1 - (swatches.empty() ? 0 : legend);
  const auto make = [&](float left) {
    return make_frame(context, session.document(), {left, top, all.x1, bottom}, session.view,
                      state.row_scale);
  };
  const float most = all.width() * (print ? 0.4f : 1.0f / 3);
  const float left = std::floor(all.x0 + std::min(gutter_width(make(all.x0)), most));
  if (print) bottom = std::min(bottom, top + make(left).layout.content_height);
  follow_playhead(session, state);
  follow_selection(session, state, make(left));
  {
    const TimelineFrame before = make(left);
    state.gutter = {all.x0, before.body.y0, left, before.body.y1};
    state.ruler = {left, all.y0, before.body.x1, all.y0 + kRulerHeight};
    state.map = {left, all.y0 + kRulerHeight + 1, before.body.x1, all.y0 + kRulerHeight + 1 + kMap};
    touch_notes(session, note_flags(before, &state.ruler));
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
  if (!print) draw_map(frame, state.map);
  draw_ruler(frame, state.ruler);
  draw_note_flags(context, frame.trace(), note_flags(frame, &state.ruler));
  if (print) {
    draw_legend(context.fonts, context.palette, {all.x0, bottom + 6}, all.width(), swatches);
    draw_label(context, {left - 4, all.y0 + 3}, {1, 0},
               session.axis_mode == AxisMode::steps ? "ring step" : "time");
    return;
  }
  draw_scroll_bar(frame);
  draw_legend(context.fonts, context.palette, {left, bottom + 4}, all.x1 - left, swatches);
  draw_way_back(context, {all.x0, all.y0, left, all.y0 + kRulerHeight});
  draw_scale_key(frame, {all.x0, all.y0, left, top});
  if (state.hovered_is_ours && session.hovered && state.gesture == TimelineState::Gesture::none)
    draw_slice_tooltip(frame, *session.hovered);
}

void draw_timeline_strip(const PanelContext& context, const Document& document,
                         const std::string& slot, const Box& box, const TimelineView& view,
                         bool details) {
  if (box.width() < kTimelineStripGutter + 8 || box.height() < 8 || document.trace.slice_count == 0)
    return;
  const Box body{box.x0 + kTimelineStripGutter, box.y0, box.x1, box.y1};
  TimelineFrame frame = make_frame(context, document, body, view, 1);
  if (frame.length() <= 0) return;
  fit_rows(frame, details);
  draw_slices(frame, slot);
  draw_steps(frame);
  if (details) {
    draw_list().PushClipRect(frame.body.min(), frame.body.max(), true);
    draw_slice_labels(frame);
    draw_list().PopClipRect();
  }
  draw_playhead(frame);
  draw_note_flags(context, document.trace, note_flags(frame, nullptr));
  draw_gutter(frame, {box.x0, frame.body.y0, frame.body.x0, frame.body.y1});
  if (!ImGui::IsWindowHovered() || !frame.body.contains(ImGui::GetIO().MousePos)) return;
  if (const auto slice = frame.slice_under_mouse()) draw_slice_tooltip(frame, *slice);
}

void draw_timeline_strip_ruler(const PanelContext& context, const Document& document,
                               const Box& box, const TimelineView& view) {
  const Box ruler{box.x0 + kTimelineStripGutter, box.y0, box.x1, box.y1};
  if (ruler.width() >= 8 && ruler.height() >= 8)
    draw_ruler(make_frame(context, document, ruler, view, 1), ruler);
}

std::array<Box, 2> draw_timelines(const PanelContext& context, const Box& box,
                                  const std::array<TimelineStrip, 2>& strips,
                                  const TimelineView& view, bool moves) {
  constexpr float kRuler = 24, kTitle = 20, kGap = 12;
  constexpr float kMostRank = 120, kRowForMessages = 30;  // height of a rank
  const AxisMode mode = context.session.axis_mode;
  const float left = box.height() - kRuler - 2 * kTitle - kGap;
  if (left < 60) return {};
  // Ranks of both are equally high, as far as there is room.
  const auto ranks_of = [&](int i) {
    const Document* const document = strips[i].document;
    return document != nullptr ? std::max(document->trace.rank_count(), 1) : 1;
  };
  const float all = static_cast<float>(ranks_of(0) + ranks_of(1));
  const float share = std::clamp(static_cast<float>(ranks_of(0)) / all, 0.3f, 0.7f);
  std::array<Box, 2> boxes;
  float y = box.y0 + kRuler;
  for (int i = 0; i < 2; ++i) {
    y += kTitle;
    const float high = std::floor(
        std::min((i == 0 ? share : 1 - share) * left, kMostRank * static_cast<float>(ranks_of(i))));
    boxes[i] = {box.x0, y, box.x1, y + high};
    y += high + kGap;
  }
  const auto length = [&](const Document* document) {
    return document != nullptr ? document->axis.length(mode) : 0;
  };
  const bool second_longer = length(strips[1].document) > length(strips[0].document);
  const Document& ruled = *strips[second_longer ? 1 : 0].document;
  const Box ruler{box.x0, box.y0, box.x1, box.y0 + kRuler};
  if (moves && ruled.trace.slice_count > 0 && box.width() > kTimelineStripGutter + 8) {
    const float x0 = box.x0 + kTimelineStripGutter;
    const TimelineFrame frame =
        make_frame(context, ruled, {x0, boxes[0].y0, box.x1, boxes[1].y1}, view, 1);
    touch_ruler(frame, {x0, ruler.y0, ruler.x1, ruler.y1});
    if (ImGui::IsItemActive()) context.session.playback.pause();
    touch_strips(frame);
  }
  draw_timeline_strip_ruler(context, ruled, ruler, view);
  for (int i = 0; i < 2; ++i) {
    const TimelineStrip& strip = strips[i];
    const Box& at = boxes[i];
    const float middle = at.y0 - kTitle / 2;
    float x = at.x0 + 4;
    x += 10 + draw_text(context.fonts.strong, {x, middle}, {0, 0.5f}, context.palette.text,
                        strip.what, at.x1 - x);
    x += 10 + draw_label(context, {x, middle}, {0, 0.5f}, strip.name, at.x1 - x);
    draw_text(context.fonts.small, {x, middle}, {0, 0.5f},
              strip.ink != 0 ? strip.ink : context.palette.text, strip.more, at.x1 - x);
    if (strip.document != nullptr)
      draw_timeline_strip(context, *strip.document, strip.slot, at, view,
                          at.height() >= kRowForMessages * static_cast<float>(ranks_of(i)));
  }
  return boxes;
}

}  // namespace ringscope::viz

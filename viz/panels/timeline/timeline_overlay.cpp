// Draws lines and frames over the slices: step boundaries, search hits, the selected and the
// hovered slice, the measured span, the playhead, flows and the critical path.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "viz/data/session/format.h"
#include "viz/data/session/selection.h"
#include "viz/data/session/session.h"
#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {
namespace {

constexpr float kNarrowestStep = 12;  // pixels; closer boundaries would look like hatching
constexpr int kMostBoundaries = 1500;
constexpr std::size_t kMostHits = 1000;

void draw_column(const TimelineFrame& frame, float x, float y0, float y1, Color color) {
  x = std::floor(x);
  y0 = std::max(y0, frame.body.y0);
  y1 = std::min(y1, frame.body.y1);
  if (x >= frame.body.x0 && x < frame.body.x1 && y0 < y1) fill({x, y0, x + 1, y1}, color);
}

// Draw a rank's step boundaries within its own rows.
void draw_rank_steps(const TimelineFrame& frame, const RankPlace& place, Color color) {
  const Axis& axis = frame.document.axis;
  const int rank = place.rank;
  const float y0 = frame.y_at(place.y);
  const int first = axis.step_at(rank, axis.time_at(frame.mode, rank, frame.view.begin));
  const int last = axis.step_at(rank, axis.time_at(frame.mode, rank, frame.view.end));
  for (int step = std::max(first, 0); step <= std::min(last + 1, axis.steps()); ++step) {
    draw_column(frame, frame.x_at(rank, axis.step_begin_ns(rank, step)), y0 - 1,
                y0 + place.height + 1, color);
  }
}

// Draw words on a patch of the panel's colour, inside the body.
void draw_patch(const TimelineFrame& frame, ImVec2 center, Color color, const std::string& text) {
  ImFont* font = frame.context.fonts.text;
  const float half = std::ceil(text_width(font, text) / 2) + 7;
  const float least = frame.body.x0 + half, most = frame.body.x1 - half;
  const float x = most > least ? std::clamp(center.x, least, most) : center.x;
  const Box patch{x - half, center.y - 11, x + half, center.y + 11};
  fill(patch, frame.context.palette.panel, 4);
  outline(patch, color, 4);
  draw_text(font, patch.center(), {0.5f, 0.5f}, frame.context.palette.text, text);
}

}  // namespace

void draw_steps(const TimelineFrame& frame) {
  const Axis& axis = frame.document.axis;
  const Palette& palette = frame.context.palette;
  if (axis.steps() == 0 || frame.length() <= 0) return;
  const double in_view = axis.steps() * frame.view.width() / frame.length();
  if (in_view * kNarrowestStep > frame.body.width()) return;
  const Color color = with_alpha(palette.text_dim, 0.35);
  if (frame.mode == AxisMode::steps) {
    const float bottom = frame.body.y0 + std::min(frame.body.height(), frame.layout.content_height);
    for (int step = 0; step <= axis.steps(); ++step)
      draw_column(frame, frame.x_at(step), frame.body.y0, bottom, color);
    return;
  }
  const int own = frame.active ? frame.context.session.selected_rank : -1;
  const bool all = in_view * frame.layout.ranks.size() < kMostBoundaries;
  for (const RankPlace& place : frame.layout.ranks) {
    const bool selected = place.rank == own;
    if (all || selected)
      draw_rank_steps(frame, place, selected ? with_alpha(palette.text, 0.7) : color);
  }
}

void draw_found(const TimelineFrame& frame) {
  const Session& session = frame.context.session;
  if (!frame.active) return;
  const auto draw = [&](const std::vector<SliceId>& slices, float high, Color color) {
    std::size_t drawn = 0;
    for (const SliceId& id : slices) {
      if (drawn >= kMostHits) return;
      for (const Box& box : frame.slice_boxes(id)) {
        fill({box.x0, box.y1 - high, std::max(box.x1, box.x0 + 2), box.y1}, color);
        ++drawn;
      }
    }
  };
  draw(session.sought.found.slices, 2, frame.context.palette.accent);
  if (session.panels.table) draw(session.sought.marked, 4, frame.context.palette.warning);
}

void draw_selection(const TimelineFrame& frame) {
  const Session& session = frame.context.session;
  if (!frame.active) return;
  const auto draw = [&](const std::optional<SliceId>& id, Color color, float thickness) {
    if (!id) return;
    for (const Box& box : frame.slice_boxes(*id))
      outline({box.x0, box.y0, std::max(box.x1, box.x0 + 3), box.y1}, color, 1, thickness);
  };
  draw(session.hovered, with_alpha(frame.context.palette.text, 0.8), 1);
  draw(session.selected, frame.context.palette.selection, 2);
}

void draw_playhead(const TimelineFrame& frame) {
  if (!frame.context.session.marks_now()) return;
  const float x = frame.x_at(frame.context.session.playback.position());
  draw_column(frame, x, frame.body.y0, frame.body.y1, frame.context.palette.playhead);
  draw_column(frame, x + 1, frame.body.y0, frame.body.y1,
              with_alpha(frame.context.palette.playhead, 0.35));
}

void draw_measure(const TimelineFrame& frame) {
  const std::optional<Measure>& measure = frame.context.session.measure;
  const Palette& palette = frame.context.palette;
  if (!measure || !frame.active) return;
  const double from = std::min(measure->from, measure->to);
  const double to = std::max(measure->from, measure->to);
  const float x0 = std::clamp(frame.x_at(from), frame.body.x0 - 2, frame.body.x1 + 2);
  const float x1 = std::clamp(frame.x_at(to), frame.body.x0 - 2, frame.body.x1 + 2);
  float y = frame.body.y1;
  for (const RankPlace& place : frame.layout.ranks) {
    if (!measure->holds(place.rank)) continue;
    const float y0 = std::max(frame.y_at(place.y) - 1, frame.body.y0);
    const float y1 = std::min(frame.y_at(place.y + place.height) + 1, frame.body.y1);
    if (y0 >= y1) continue;
    fill({x0, y0, x1, y1}, with_alpha(palette.accent, 0.14));
    draw_column(frame, x0, y0, y1, palette.accent);
    draw_column(frame, x1, y0, y1, palette.accent);
    y = std::min(y, y0);
  }
  y = std::clamp(y + 18, frame.body.y0 + 18, std::max(frame.body.y1 - 40, frame.body.y0 + 18));
  fill({x0, y, x1, y + 1}, palette.accent);
  const std::string share = percent_text(frame.length() > 0 ? (to - from) / frame.length() : 0);
  const std::string text = frame.mode == AxisMode::time
                               ? fmt::format("{} · {} of the run", time_text(to - from), share)
                               : fmt::format("{:.2f} steps", to - from);
  draw_patch(frame, {(x0 + x1) / 2, y}, palette.accent, text);
  std::vector<std::string> sums;
  const auto times = kept(std::tuple(frame.document.number, frame.mode, from, to, measure->ranks),
                          [&] { return measured_times(frame.context.session); });
  for (std::size_t kind = 0; kind < times.size(); ++kind)
    if (times[kind] > 0)
      sums.push_back(
          fmt::format("{} {}", name_of(static_cast<Lane>(kind)), time_text(times[kind])));
  if (!sums.empty())
    draw_patch(frame, {(x0 + x1) / 2, y + 24}, palette.panel_border,
               fmt::format("{}", fmt::join(sums, " · ")));
}

// ---
// Marks the end of a failed run: the waits that were broken off, and the time from which the failed
// rank recorded nothing more.

namespace {

void draw_silence(const TimelineFrame& frame, const RankPlace& place, Color color) {
  const int rank = place.rank;
  const std::int64_t from = last_seen_ns(frame.trace(), rank).value_or(frame.trace().begin_ns);
  const float y0 = frame.y_at(place.y);
  const float x0 = std::clamp(frame.x_at(rank, from), frame.body.x0 - 4, frame.body.x1 + 4);
  const Box box{x0, y0, frame.body.x1, y0 + place.height};
  if (box.y1 < frame.body.y0 || box.y0 > frame.body.y1 || box.width() < 1) return;
  fill(box, with_alpha(color, 0.16));
  fill({box.x0, box.y0, box.x0 + 2, box.y1}, color);
  ImFont* font = frame.context.fonts.small;
  constexpr const char* kWords = "nothing recorded from here on";
  if (box.width() > text_width(font, kWords) + 16 && box.height() > font_height(font))
    draw_text(font, {box.x0 + 9, box.center().y}, {0, 0.5f}, color, kWords);
}

}  // namespace

void draw_failure_marks(const TimelineFrame& frame) {
  const Trace& trace = frame.trace();
  if (!trace.info.failure) return;
  const Color color = frame.context.palette.warning;
  const std::vector<SliceId>& waits = frame.document.unfinished;
  const int failed = trace.info.failure->rank;
  const bool waits_itself = std::any_of(waits.begin(), waits.end(), [&](const SliceId& id) {
    return frame.rank_of(id.row) == failed;
  });
  for (const RankPlace& place : frame.layout.ranks)
    if (place.rank == failed && !waits_itself) draw_silence(frame, place, color);
  for (const SliceId& id : waits) {
    const std::optional<Box> box = frame.slice_box(id);
    if (!box) continue;
    fill(*box, with_alpha(color, 0.3));
    outline(*box, color, 1, 2);
    // Mark the place where the wait was broken off.
    if (box->x1 <= frame.body.x1) fill({box->x1 - 4, box->y0 - 1, box->x1, box->y1 + 1}, color, 1);
  }
}

// ---
// Shows what the story talks about in its own colours, and veils everything else.

namespace {

constexpr std::uint32_t kMostInRow = 5000;  // a row with more slices in view is left unchanged
constexpr double kVeil = 0.62;
constexpr float kNarrowest = 4;  // pixels

// Call f(box) for every slice of a row in view that is pointed at. Return false for too many slices.
template <class F>
bool for_pointed(const TimelineFrame& frame, const StoryStep& told, std::uint32_t row, F&& f) {
  const auto [first, last] = frame.visible(row);
  if (last - first > kMostInRow) return false;
  for (std::uint32_t i = first; i < last; ++i)
    if (points_at(told, frame.rank_of(row), frame.trace().slices(row)[i]))
      for (const Box& lit : frame.slice_boxes({row, i})) f(lit);
  return true;
}

void veil_row(const TimelineFrame& frame, const StoryStep& told, std::uint32_t row, const Box& box,
              Color color) {
  float x = frame.body.x0;
  const bool all = for_pointed(frame, told, row, [&](const Box& lit) {
    if (lit.x0 > x) fill({x, box.y0, lit.x0, box.y1}, color);
    x = std::max(x, lit.x1);
  });
  if (all && x < frame.body.x1) fill({x, box.y0, frame.body.x1, box.y1}, color);
}

// Frame the slices pointed at, because narrow ones would be lost without a frame.
void frame_row(const TimelineFrame& frame, const StoryStep& told, std::uint32_t row) {
  for_pointed(frame, told, row, [&](const Box& lit) {
    const float more = std::max(0.0f, kNarrowest - lit.width()) / 2;
    outline({lit.x0 - more - 1, lit.y0 - 1, lit.x1 + more + 1, lit.y1 + 1},
            frame.context.palette.accent, 2, 1.5f);
  });
}

}  // namespace

void draw_pointing(const TimelineFrame& frame) {
  const StoryStep* const pointed_at = frame.context.session.pointed_at();
  if (!frame.active || pointed_at == nullptr || !points_at_something(*pointed_at)) return;
  const StoryStep& told = *pointed_at;
  const Color veil = with_alpha(frame.context.palette.panel, kVeil);
  for (std::uint32_t row = 0; row < frame.trace().rows.size(); ++row)
    if (const std::optional<Box> box = frame.row_box(row)) veil_row(frame, told, row, *box, veil);
  if (told.step < 0 && !told.lane) return;  // it points at all of a rank or a pass
  for (std::uint32_t row = 0; row < frame.trace().rows.size(); ++row)
    if (frame.row_box(row)) frame_row(frame, told, row);
}

// ---
// Draws what runs between ranks: flows from send to receive, and the critical path.

namespace {

constexpr std::size_t kMostFlows = 300;        // more at once would be a tangle
constexpr std::uint32_t kMostLookedAt = 8000;  // slices; more show only the selected flow
constexpr std::ptrdiff_t kMostSegments = 50000;

// How a flow relates to the selection.
enum class Near { other, chain, own };

Near nearness(const TimelineFrame& frame, const TraceEvent& sent, std::uint32_t flow) {
  const Session& session = frame.context.session;
  if (!frame.active || !session.selected) return Near::other;
  const TraceEvent& selected = frame.trace().slice(*session.selected);
  if (selected.flow == flow) return Near::own;
  // The same block on its way round the ring is part of the chain.
  const bool same = selected.kv_owner >= 0 && selected.kv_owner == sent.kv_owner &&
                    selected.pass == sent.pass &&
                    (selected.lane == Lane::compute || selected.payload == sent.payload);
  return same ? Near::chain : Near::other;
}

struct SeenFlow {
  std::uint32_t flow = 0;  // as in TraceEvent
  Near near = Near::other;
};

std::vector<SeenFlow> seen_flows(const TimelineFrame& frame) {
  const Trace& trace = frame.trace();
  std::vector<SeenFlow> seen;
  const Session& session = frame.context.session;
  if (frame.active && session.selected && trace.slice(*session.selected).flow != 0)
    seen.push_back({static_cast<std::uint32_t>(trace.slice(*session.selected).flow), Near::own});
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
      const std::uint32_t flow = trace.slices(row)[i].flow;
      if (flow == 0) continue;
      // If both ends of a flow are in view, count it only at the sender's end.
      const TraceFlow& ends = trace.flows[flow - 1];
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
  const auto ends = flow_ends(frame, frame.trace().flows[seen.flow - 1]);
  if (!ends) return;
  const auto [from, to] = *ends;
  const double strength = seen.near == Near::own ? 1 : seen.near == Near::chain ? 0.8 : 0.3;
  const Color color = with_alpha(frame.context.palette.flow, strength);
  const float thickness = seen.near == Near::own ? 2.2f : seen.near == Near::chain ? 1.6f : 1;
  const float head = seen.near == Near::other ? 6 : 8;
  const float dx = to.x - from.x, dy = to.y - from.y;
  if (dx < 4 * head) {
    // The line is steep, so it has no room to bend.
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
std::uint32_t segment_row(const Trace& trace, const PathSegment& segment) {
  if (segment.has_slice) return segment.slice.row;
  if (segment.kind == PathSegment::compute && trace.has_model())
    return model_lane(trace, segment.rank).first_row;
  return trace.row_of(segment.rank, Lane::compute);
}

// Draw a segment from `last`, the current end of the path. Return the new end.
std::optional<ImVec2> draw_segment(const TimelineFrame& frame, const PathSegment& segment,
                                   std::optional<ImVec2> last) {
  const Session& session = frame.context.session;
  const Palette& palette = frame.context.palette;
  const Trace& trace = frame.trace();
  const RowPlace* place = frame.layout.place_of(segment_row(trace, segment));
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
      fill(*box, slice_color(session.look.theme, session.look.color_by, trace.slice(segment.slice),
                             trace.info.world_size));
      if (box->width() >= 6) outline(*box, palette.critical_path);
    }
  }
  if (last) draw_list().AddLine(*last, {x0, y}, palette.critical_path, 2);
  draw_list().AddLine({x0, y}, {x1, y}, palette.critical_path, 2);
  return ImVec2(x1, y);
}

}  // namespace

std::optional<std::pair<ImVec2, ImVec2>> flow_ends(const TimelineFrame& frame,
                                                   const TraceFlow& flow) {
  const RowPlace* from_row = frame.layout.place_of(flow.from.row);
  const RowPlace* to_row = frame.layout.place_of(flow.to.row);
  if (from_row == nullptr || to_row == nullptr) return std::nullopt;
  const auto middle = [&](const RowPlace& place) { return frame.y_at(place.y + place.height / 2); };
  // Draw from where sending begins to where the message has arrived.
  const TraceEvent& sent = frame.trace().slice(flow.from);
  const TraceEvent& received = frame.trace().slice(flow.to);
  ImVec2 from(frame.x_at(frame.rank_of(flow.from.row), sent.begin_ns), middle(*from_row));
  const double arrival =
      frame.document.axis.end_position(frame.mode, frame.rank_of(flow.to.row), received);
  const ImVec2 to(frame.x_at(arrival), middle(*to_row));
  // On the step axis every rank has its own time, and no message may seem to arrive before it leaves.
  if (frame.mode == AxisMode::steps) from.x = std::min(from.x, to.x);
  return std::pair(from, to);
}

constexpr float kFlagHigh = 8;

NoteFlag note_flag(const Note& note, const Box& rows, float foot, float end) {
  constexpr float kWide = 9;
  const float left = rows.x0 + kWide > end ? rows.x0 + 1 - kWide : rows.x0;
  return {&note, rows, {left, foot - kFlagHigh, left + kWide, foot}};
}

std::vector<NoteFlag> note_flags(const TimelineFrame& frame, const Box* ruler) {
  const Box& body = frame.body;
  std::vector<NoteFlag> flags;
  for (const Note& note : frame.document.notes) {
    const float at = std::floor(frame.x_at(note.rank, frame.trace().begin_ns + note.ns));
    const auto place = std::find_if(frame.layout.ranks.begin(), frame.layout.ranks.end(),
                                    [&](const RankPlace& p) { return p.rank == note.rank; });
    if (at < body.x0 || at > body.x1 || place == frame.layout.ranks.end()) continue;
    const float x = std::min(at, body.x1 - 1);
    const Box rows{x, std::clamp(frame.y_at(place->y), body.y0, body.y1), x + 1,
                   std::clamp(frame.y_at(place->y + place->height), body.y0, body.y1)};
    const float foot = ruler != nullptr ? ruler->y1 - 1 : rows.y0 + kFlagHigh;
    flags.push_back(note_flag(note, rows, foot, body.x1));
  }
  return flags;
}

void draw_note_flags(const PanelContext& context, const Trace& trace,
                     const std::vector<NoteFlag>& flags) {
  constexpr float kText = 320;
  const Palette& palette = context.palette;
  const bool hovered = ImGui::IsWindowHovered();
  for (const auto& [note, rows, box] : flags) {
    const float x = rows.x0;
    fill({x - 1, rows.y0, x + 2, rows.y1}, with_alpha(palette.panel, 0.7));
    fill(rows, palette.accent);
    fill({x, box.y0, x + 1, box.y1}, palette.accent);
    const float tip = x > box.x0 ? box.x0 : box.x1;
    draw_list().AddTriangleFilled({x, box.y0}, {tip, box.y0 + 3.5f}, {x, box.y0 + 7},
                                  palette.accent);
    if (!hovered || !box.contains(ImGui::GetIO().MousePos)) continue;
    ImGui::BeginTooltip();  // the tooltips of several notes are one
    write(context.fonts.text, palette.text, note->text, kText);
    write(context.fonts.small, palette.text_dim, place_of(trace, *note));
    ImGui::EndTooltip();
  }
}

void draw_flows(const TimelineFrame& frame) {
  if (!frame.context.session.look.flows || frame.trace().flows.empty()) return;
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
  const std::vector<PathSegment>& segments = frame.document.path().segments;
  if (!frame.context.session.look.critical_path || segments.empty()) return;
  // Find the times that any rank can have in view. On the step axis ranks show different times.
  std::int64_t begin = trace.end_ns, end = trace.begin_ns;
  for (int rank = 0; rank < trace.info.world_size; ++rank) {
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

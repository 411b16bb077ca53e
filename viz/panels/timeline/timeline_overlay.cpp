// Draws lines and frames over the slices: step boundaries, search hits, the selected and the
// hovered slice, the measured span, and the playhead.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/model/analysis/failure.h"
#include "viz/model/session/format.h"
#include "viz/model/session/story.h"
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
  const int rank = static_cast<int>(place.rank);
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
  const ImFont* font = frame.context.fonts.text;
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
  const bool all = in_view * static_cast<double>(frame.layout.ranks.size()) < kMostBoundaries;
  for (const RankPlace& place : frame.layout.ranks) {
    const bool selected = static_cast<int>(place.rank) == own;
    if (all || selected)
      draw_rank_steps(frame, place, selected ? with_alpha(palette.text, 0.7) : color);
  }
}

void draw_found(const TimelineFrame& frame) {
  const Session& session = frame.context.session;
  if (!frame.active) return;
  std::size_t drawn = 0;
  for (const SliceId& id : session.found.slices) {
    const std::optional<Box> box = frame.slice_box(id);
    if (box && drawn++ < kMostHits) {
      fill({box->x0, box->y1 - 2, std::max(box->x1, box->x0 + 2), box->y1},
           frame.context.palette.accent);
    }
  }
}

void draw_selection(const TimelineFrame& frame) {
  const Session& session = frame.context.session;
  if (!frame.active) return;
  const auto draw = [&](const std::optional<SliceId>& id, Color color, float thickness) {
    if (!id) return;
    if (std::optional<Box> box = frame.slice_box(*id)) {
      box->x1 = std::max(box->x1, box->x0 + 3);
      outline(*box, color, 1, thickness);
    }
  };
  draw(session.hovered, with_alpha(frame.context.palette.text, 0.8), 1);
  draw(session.selected, frame.context.palette.selection, 2);
}

void draw_playhead(const TimelineFrame& frame) {
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
  fill({x0, frame.body.y0, x1, frame.body.y1}, with_alpha(palette.accent, 0.14));
  draw_column(frame, x0, frame.body.y0, frame.body.y1, palette.accent);
  draw_column(frame, x1, frame.body.y0, frame.body.y1, palette.accent);
  const float y = frame.body.y0 + 18;
  fill({x0, y, x1, y + 1}, palette.accent);
  const std::string share = percent_text(frame.length() > 0 ? (to - from) / frame.length() : 0);
  const std::string text = frame.mode == AxisMode::time
                               ? fmt::format("{} · {} of the run", time_text(to - from), share)
                               : fmt::format("{:.2f} steps", to - from);
  draw_patch(frame, {(x0 + x1) / 2, y}, palette.accent, text);
}

// ---
// Marks the end of a failed run: the waits that were broken off, and the time from which the failed
// rank recorded nothing more.

namespace {

void draw_silence(const TimelineFrame& frame, const RankPlace& place, Color color) {
  const int rank = static_cast<int>(place.rank);
  const std::int64_t from = last_seen_ns(frame.trace(), rank).value_or(frame.trace().begin_ns);
  const float y0 = frame.y_at(place.y);
  const float x0 = std::clamp(frame.x_at(rank, from), frame.body.x0 - 4, frame.body.x1 + 4);
  const Box box{x0, y0, frame.body.x1, y0 + place.height};
  if (box.y1 < frame.body.y0 || box.y0 > frame.body.y1 || box.width() < 1) return;
  fill(box, with_alpha(color, 0.16));
  fill({box.x0, box.y0, box.x0 + 2, box.y1}, color);
  const ImFont* font = frame.context.fonts.small;
  constexpr const char* kWords = "nothing recorded from here on";
  if (box.width() > text_width(font, kWords) + 16 && box.height() > font_height(font))
    draw_text(font, {box.x0 + 9, box.center().y}, {0, 0.5f}, color, kWords);
}

}  // namespace

void draw_failure_marks(const TimelineFrame& frame) {
  const Trace& trace = frame.trace();
  if (!trace.run || !trace.run->failure) return;
  const Color color = frame.context.palette.warning;
  const std::vector<SliceId>& waits = frame.document.unfinished;
  const int failed = trace.run->failure->rank;
  const bool waits_itself = std::any_of(waits.begin(), waits.end(), [&](const SliceId& id) {
    return frame.rank_of(id.row) == failed;
  });
  for (const RankPlace& place : frame.layout.ranks)
    if (static_cast<int>(place.rank) == failed && !waits_itself) draw_silence(frame, place, color);
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
    if (points_at(told, frame.rank_of(row), frame.trace().rows[row].slices[i]))
      if (const std::optional<Box> lit = frame.slice_box({row, i})) f(*lit);
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

}  // namespace ringscope::viz

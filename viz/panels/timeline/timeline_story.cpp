// Draws over the timeline of a failed run, and over one whose story is told.

#include <algorithm>
#include <cmath>

#include "viz/model/analysis/failure.h"
#include "viz/model/session/story.h"
#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {

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

void veil_row(const TimelineFrame& frame, const StoryStep& told, std::uint32_t row, const Box& box,
              Color color) {
  const auto [first, last] = frame.visible(row);
  if (last - first > kMostInRow) return;
  const int rank = frame.rank_of(row);
  float x = frame.body.x0;
  for (std::uint32_t i = first; i < last; ++i) {
    if (!points_at(told, rank, frame.trace().rows[row].slices[i])) continue;
    const std::optional<Box> lit = frame.slice_box({row, i});
    if (!lit) continue;
    if (lit->x0 > x) fill({x, box.y0, lit->x0, box.y1}, color);
    x = std::max(x, lit->x1);
  }
  if (x < frame.body.x1) fill({x, box.y0, frame.body.x1, box.y1}, color);
}

// Frame the slices pointed at, because narrow ones would be lost without a frame.
void frame_row(const TimelineFrame& frame, const StoryStep& told, std::uint32_t row) {
  const auto [first, last] = frame.visible(row);
  if (last - first > kMostInRow) return;
  const int rank = frame.rank_of(row);
  for (std::uint32_t i = first; i < last; ++i) {
    if (!points_at(told, rank, frame.trace().rows[row].slices[i])) continue;
    const std::optional<Box> lit = frame.slice_box({row, i});
    if (!lit) continue;
    const float more = std::max(0.0f, kNarrowest - lit->width()) / 2;
    outline({lit->x0 - more - 1, lit->y0 - 1, lit->x1 + more + 1, lit->y1 + 1},
            frame.context.palette.accent, 2, 1.5f);
  }
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

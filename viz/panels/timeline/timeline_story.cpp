// Shows what the story talks about in its own colours, and veils everything else.
#include <algorithm>

#include "viz/model/session/story.h"
#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {
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
    if (lit->x0 > x) fill(frame.list, {x, box.y0, lit->x0, box.y1}, color);
    x = std::max(x, lit->x1);
  }
  if (x < frame.body.x1) fill(frame.list, {x, box.y0, frame.body.x1, box.y1}, color);
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
    outline(frame.list, {lit->x0 - more - 1, lit->y0 - 1, lit->x1 + more + 1, lit->y1 + 1},
            frame.context.palette.accent, 2, 1.5f);
  }
}

}  // namespace

void draw_pointing(const TimelineFrame& frame) {
  const Session& session = frame.context.session;
  if (!frame.active || !session.pointing || !session.story_shown() || session.story_at < 0) return;
  const StoryStep& told = session.story()[static_cast<std::size_t>(session.story_at)];
  if (!points_at_something(told)) return;
  const Color veil = with_alpha(frame.context.palette.panel, kVeil);
  for (std::uint32_t row = 0; row < frame.trace().rows.size(); ++row)
    if (const std::optional<Box> box = frame.row_box(row)) veil_row(frame, told, row, *box, veil);
  if (told.step < 0 && !told.lane) return;  // it points at all of a rank or a pass
  for (std::uint32_t row = 0; row < frame.trace().rows.size(); ++row)
    if (frame.row_box(row)) frame_row(frame, told, row);
}

}  // namespace ringscope::viz

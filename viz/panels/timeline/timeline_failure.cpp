// Marks the end of a failed run: the waits that were broken off, and the time from which the failed
// rank recorded nothing more.
#include <algorithm>
#include <cmath>

#include "viz/model/analysis/failure.h"
#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {
namespace {

void draw_silence(const TimelineFrame& frame, const RankPlace& place, Color color) {
  const int rank = static_cast<int>(place.rank);
  const std::int64_t from = last_seen_ns(frame.trace(), rank).value_or(frame.trace().begin_ns);
  const float y0 = frame.body.y0 + place.y - static_cast<float>(frame.view.scroll_y);
  const float x0 = std::clamp(frame.x_at(rank, from), frame.body.x0 - 4, frame.body.x1 + 4);
  const Box box{x0, y0, frame.body.x1, y0 + place.height};
  if (box.y1 < frame.body.y0 || box.y0 > frame.body.y1 || box.width() < 1) return;
  fill(frame.list, box, with_alpha(color, 0.16));
  fill(frame.list, {box.x0, box.y0, box.x0 + 2, box.y1}, color);
  const ImFont* font = frame.context.fonts.small;
  constexpr const char* kWords = "nothing recorded from here on";
  if (box.width() > text_width(font, kWords) + 16 && box.height() > font_height(font))
    draw_text(frame.list, font, {box.x0 + 9, box.center().y}, {0, 0.5f}, color, kWords);
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
    fill(frame.list, *box, with_alpha(color, 0.3));
    outline(frame.list, *box, color, 1, 2);
    // Mark the place where the wait was broken off.
    if (box->x1 <= frame.body.x1)
      fill(frame.list, {box->x1 - 4, box->y0 - 1, box->x1, box->y1 + 1}, color, 1);
  }
}

}  // namespace ringscope::viz

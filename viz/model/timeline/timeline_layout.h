// Where things lie on the timeline: rows by height, axis positions by width, and back again for the
// mouse. Coordinates are pixels from the top left of the timeline's body.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "viz/model/timeline/axis.h"
#include "viz/model/trace/trace.h"

namespace ringscope::viz {

// The visible part of the axis, and how far the rows are scrolled.
struct TimelineView {
  double begin = 0;
  double end = 1;
  double scroll_y = 0;

  double width() const { return end - begin; }
  bool operator==(const TimelineView&) const = default;
};

// The factor by which one notch of the mouse wheel zooms.
inline constexpr double kZoomNotch = 1.25;

// Zooms by `factor` (> 1 closer) so that axis position `at` stays where it is, within the axis'
// length; never closer than a nanosecond a pixel or so, never wider than the whole.
TimelineView zoomed(const TimelineView& view, double at, double factor, double length,
                    AxisMode mode);
TimelineView panned(const TimelineView& view, double by, double length);
// The whole axis.
TimelineView fitted(double length);
// [begin, end) with a margin.
TimelineView framed(double begin, double end, double length, AxisMode mode, double scroll_y);

struct RowPlace {
  std::uint32_t row = 0;
  float y = 0;  // before scrolling
  float height = 0;
};
struct RankPlace {
  std::uint32_t rank = 0;
  float y = 0;
  float height = 0;
};

// Rows top to bottom, rank by rank, with a gap between ranks. Rows are as high as fits into
// `height`, between kMinRowHeight and kMaxRowHeight; beyond that the timeline scrolls.
struct TimelineLayout {
  static constexpr float kMinRowHeight = 3, kMaxRowHeight = 22, kRankGap = 6;

  float width = 0;
  float height = 0;          // of the body
  float content_height = 0;  // of all rows
  std::vector<RowPlace> rows;
  std::vector<RankPlace> ranks;

  double position_at(const TimelineView& view, float x) const;
  float x_of(const TimelineView& view, double position) const;
  // The row at body height `y`, after scrolling; none in a gap.
  std::optional<std::uint32_t> row_at(const TimelineView& view, float y) const;
  const RowPlace* place_of(std::uint32_t row) const;
};
// `row_scale` (1 as computed) lets people make rows higher or lower.
TimelineLayout make_layout(const Trace& trace, float width, float height, float row_scale = 1);

// The slice under a pixel: the one that covers it, else the nearest within `reach` pixels.
std::optional<SliceId> slice_at(const Trace& trace, const Axis& axis, AxisMode mode,
                                const TimelineLayout& layout, const TimelineView& view, float x,
                                float y, float reach = 3);

// The slice edge nearest to pixel x within `reach` pixels, as an axis position: of the row at y
// when it has one, else of any visible row. What measuring snaps to.
std::optional<double> snapped_edge(const Trace& trace, const Axis& axis, AxisMode mode,
                                   const TimelineLayout& layout, const TimelineView& view, float x,
                                   float y, float reach = 8);

}  // namespace ringscope::viz

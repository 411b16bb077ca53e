// Lays out the timeline: rows by height, axis positions by width, and back again for the mouse.
// Coordinates are pixels from the top left of the timeline's body. It draws nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "viz/model/timeline/axis.h"
#include "viz/model/trace/trace.h"

namespace ringscope::viz {

// A TimelineView is the visible part of the axis, and how far the rows are scrolled in pixels.
struct TimelineView {
  double begin = 0;
  double end = 1;
  double scroll_y = 0;

  double width() const { return end - begin; }
  bool operator==(const TimelineView&) const = default;
};

// The factor by which one notch of the mouse wheel zooms.
inline constexpr double kZoomNotch = 1.25;

// Zoom by `factor` (> 1 is closer) so that axis position `at` stays where it is, within the axis'
// length. The width stays between about a nanosecond per pixel and the whole axis.
TimelineView zoomed(const TimelineView& view, double at, double factor, double length,
                    AxisMode mode);
TimelineView panned(const TimelineView& view, double by, double length);
// Return the whole axis.
TimelineView fitted(double length);
// Return a view of the range [begin, end) with a margin on either side.
TimelineView framed(double begin, double end, double length, AxisMode mode, double scroll_y);

struct RowPlace {
  std::uint32_t row = 0;
  float y = 0;  // before scrolling
  float height = 0;
};
struct RankPlace {
  int rank = 0;
  float y = 0;
  float height = 0;
};

// A TimelineLayout places rows top to bottom, rank by rank, with a gap between ranks. Rows are as
// high as fits into `height`, from kMinRowHeight to kMaxRowHeight, messages' rows lower than others
// where that makes room for words; if they don't fit, they scroll.
struct TimelineLayout {
  static constexpr float kMinRowHeight = 3, kMaxRowHeight = 22, kRankGap = 6;

  float width = 0;
  float height = 0;          // of the body
  float content_height = 0;  // of all rows
  std::vector<RowPlace> rows;
  std::vector<RankPlace> ranks;

  double position_at(const TimelineView& view, float x) const;
  float x_of(const TimelineView& view, double position) const;
  // Return the row at body height `y`, after scrolling; none in a gap.
  std::optional<std::uint32_t> row_at(const TimelineView& view, float y) const;
  const RowPlace* place_of(std::uint32_t row) const;
};
// Lay out the trace. `row_scale` makes rows higher or lower than computed.
TimelineLayout make_layout(const Trace& trace, float width, float height, float row_scale = 1);

// Return the slices of a row that touch [begin, end], as indices [first, second).
std::pair<std::uint32_t, std::uint32_t> slices_near(const std::vector<Slice>& slices,
                                                    std::int64_t begin, std::int64_t end);

// Return the slice that covers a pixel, or else the nearest within three pixels.
std::optional<SliceId> slice_at(const Trace& trace, const Axis& axis, AxisMode mode,
                                const TimelineLayout& layout, const TimelineView& view, float x,
                                float y);

// Return the slice edge nearest to pixel x within eight pixels, as an axis position: one of the
// row at y if it has any, else of any visible row. Measuring snaps to it.
std::optional<double> snapped_edge(const Trace& trace, const Axis& axis, AxisMode mode,
                                   const TimelineLayout& layout, const TimelineView& view, float x,
                                   float y);

}  // namespace ringscope::viz

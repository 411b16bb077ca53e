// Lays out the timeline: rows by height, axis positions by width, and back again for the mouse.
// Coordinates are pixels from the top left of the timeline's body. It draws nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "viz/data/timeline/axis.h"
#include "viz/data/trace/trace.h"

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
// Return the view from begin to end, or the nearest that the axis holds.
TimelineView between(double begin, double end, double length, AxisMode mode);
// Return a view of the range [begin, end) with a margin on either side.
TimelineView framed(double begin, double end, double length, AxisMode mode, double scroll_y);

// Return the least of 1, 2 or 5 times a power of ten that is not below `least`.
double round_step(double least);

// What one length on the screen is in time.
struct ScaleKey {
  float pixels = 0;
  std::int64_t ns = 0;
};
// Return a key of at most `room` pixels in a body of `width`. Each step of the step axis has a scale of
// its own; the key is that of `step`.
ScaleKey scale_key(const Axis& axis, AxisMode mode, const TimelineView& view, int step, float width,
                   float room);

// The ranks that the user has pinned to the top, in this order, and those that take one low row.
struct RankOrder {
  std::vector<int> pinned, folded;
  bool operator==(const RankOrder&) const = default;
};

struct RowPlace {
  std::uint32_t row = 0;
  float y = 0;  // before scrolling
  float height = 0;
  bool operator==(const RowPlace&) const = default;
};
struct RankPlace {
  int rank = 0;
  float y = 0;
  float height = 0;
};

// A TimelineLayout places rows top to bottom, rank by rank, with a gap between ranks. Rows are as
// high as fits into `height`, from kMinRowHeight to kMaxRowHeight. Where that is too low for words,
// rows without slices in view get the least, and messages' rows less than others. What does not fit
// scrolls.
struct TimelineLayout {
  static constexpr float kMinRowHeight = 3, kMaxRowHeight = 22, kFoldedHeight = 8, kRankGap = 6;

  float width = 0;
  float height = 0;            // of the body
  float content_height = 0;    // of all rows
  std::vector<RowPlace> rows;  // from the top, as ranks
  std::vector<RankPlace> ranks;
  std::vector<std::uint32_t> index;  // [row]: one more than its index in `rows`; 0: it has no place

  double position_at(const TimelineView& view, float x) const;
  float x_of(const TimelineView& view, double position) const;
  // Return the row at body height `y`, after scrolling; none in a gap.
  std::optional<std::uint32_t> row_at(const TimelineView& view, float y) const;
  const RowPlace* place_of(std::uint32_t row) const;
  void add(const RowPlace& place);  // below all others
};
// Lay out the trace. `row_scale` makes rows higher or lower than computed. has_slices(row) says whether
// a row has any in view; without it, all have.
TimelineLayout make_layout(const Trace& trace, float width, float height, float row_scale = 1,
                           const RankOrder& order = {},
                           const std::function<bool(std::uint32_t)>& has_slices = {});
// Return the ranks that lie between two heights of the body.
std::vector<int> ranks_between(const TimelineLayout& layout, const TimelineView& view, float y0,
                               float y1);

// Return the slices of a row that touch [begin, end], as indices [first, second).
std::pair<std::uint32_t, std::uint32_t> slices_near(std::span<const TraceEvent> slices,
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

// Paints the timeline's body as a picture, at every zoom. Slices wider than a pixel column are
// drawn one by one. If several share a column, each colour fills the column from below by its share
// of the column's time: 40 % computing shows as 40 % of the height, and the rest stays empty.
// Nothing is merged into one bar, so neither a wait of one pixel nor the empty space beside it
// vanishes. The cost is in proportion to pixels plus visible slices up to a bound; beyond it, sums
// over blocks of slices, made once, replace the slices inside.
#pragma once

#include <cstdint>
#include <vector>

#include "viz/data/timeline/axis.h"
#include "viz/data/timeline/palette.h"
#include "viz/data/timeline/timeline_layout.h"

namespace ringscope::viz {

// Holds begins, ends and colour classes side by side per row, and block sums of time by class.
class TimelineIndex {
 public:
  static constexpr int kBlock = 64;
  static constexpr int kClasses = kOwnerClasses;

  TimelineIndex() = default;
  explicit TimelineIndex(const Trace& trace);

  // Classes are numbered per row in the order in which colours by owner first turn up; owners count mod
  // 16 in a recording of ours. All slices of a class are of one kind.
  struct RowIndex {
    std::vector<std::int64_t> begins, ends;
    std::vector<std::uint8_t> classes;
    std::vector<TraceEvent> samples;  // by class: its first slice
    std::vector<std::int64_t> sums;   // [block][class]: nanoseconds of all slices before the block
    std::vector<std::uint16_t> present;  // by block: one bit per class

    // Add the time of blocks [first, last) to `into`. Return all their classes, even without time.
    std::uint32_t add_blocks(std::size_t first, std::size_t last, std::int64_t* into) const;
  };
  const RowIndex& row(std::uint32_t r) const { return rows_[r]; }

  // Set `sums` to the exact nanoseconds of each class within [begin, end) of a row.
  void time_by_class(std::uint32_t row, std::int64_t begin, std::int64_t end,
                     std::int64_t (&sums)[kClasses]) const;

 private:
  std::vector<RowIndex> rows_;
};

struct TimelinePaint {
  AxisMode mode = AxisMode::time;
  ColorBy color_by = ColorBy::owner;
  Theme theme = Theme::dark;
  // Dims all slices, so that what is drawn over them, like the critical path, stands out.
  bool dim_all = false;
};

// Paint into `image`, whose size is that of the layout's body. Its memory is reused.
void paint_timeline(const Trace& trace, const Axis& axis, const TimelineIndex& index,
                    const TimelineLayout& layout, const TimelineView& view,
                    const TimelinePaint& paint, Image& image);

}  // namespace ringscope::viz

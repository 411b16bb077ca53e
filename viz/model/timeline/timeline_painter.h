// The timeline's body as a picture, at every zoom. Where slices are wider than a pixel column they
// are drawn one by one. Where several share a column, the column is filled from below by the share
// of its time that each colour takes: 40 % computing shows as 40 % of the height, and the rest
// stays empty. Nothing is folded into one bar; a wait a pixel wide does not vanish, and neither
// does the emptiness beside it. Cost is in proportion to pixels plus visible slices up to a bound:
// beyond it, sums over blocks of slices, made once, stand for the slices inside.
#pragma once

#include <cstdint>
#include <vector>

#include "viz/model/timeline/axis.h"
#include "viz/model/timeline/palette.h"
#include "viz/model/timeline/timeline_layout.h"

namespace ringscope::viz {

// Per row: begins, ends and colour classes side by side, and sums of time by class over blocks.
class TimelineIndex {
 public:
  static constexpr int kBlock = 64;
  static constexpr int kClasses = 16;

  TimelineIndex() = default;
  explicit TimelineIndex(const Trace& trace);

  // Classes by kind are the kinds' numbers. By owner they are counted up per row, in the order in
  // which colours first turn up: owners mod 16 in a recording of ours.
  struct RowIndex {
    std::vector<std::int64_t> begins, ends;
    std::vector<std::uint8_t> owner_class, kind_class;
    std::vector<Slice> owner_samples;  // by owner class: the first slice of it
    // [block][class]: nanoseconds of all slices before the block.
    std::vector<std::int64_t> owner_sums, kind_sums;
    std::vector<std::uint16_t> owner_present, kind_present;  // by block: bit by class
    std::uint32_t kinds = 0;                                 // in the whole row

    const std::vector<std::uint8_t>& classes(ColorBy by) const {
      return by == ColorBy::owner ? owner_class : kind_class;
    }
    std::uint32_t present(ColorBy by) const {  // in the whole row
      return by == ColorBy::owner ? (1u << owner_samples.size()) - 1 : kinds;
    }
    // Adds the time of blocks [first, last); which classes are in them, even if they take no time.
    std::uint32_t add_blocks(ColorBy by, std::size_t first, std::size_t last,
                             std::int64_t* sums) const;
  };
  const RowIndex& row(std::uint32_t r) const { return rows_[r]; }

  // Nanoseconds of each class within [begin, end) of a row; exact.
  void time_by_class(std::uint32_t row, ColorBy by, std::int64_t begin, std::int64_t end,
                     std::int64_t (&sums)[kClasses]) const;

 private:
  std::vector<RowIndex> rows_;
};

struct TimelinePaint {
  AxisMode mode = AxisMode::time;
  ColorBy color_by = ColorBy::owner;
  Theme theme = Theme::dark;
  // Rows of the critical path stay bright and all else is dimmed when given.
  bool dim_all = false;
};

// Paints into `image`, whose size is the layout's body; reuses its memory.
void paint_timeline(const Trace& trace, const Axis& axis, const TimelineIndex& index,
                    const TimelineLayout& layout, const TimelineView& view,
                    const TimelinePaint& paint, Image& image);

}  // namespace ringscope::viz

// One recording of a comparison: its column of pictures.
#pragma once

#include <cstddef>
#include <string>

#include "viz/panels/compare_layout.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {

// What all columns share, so that equal colours and lengths mean the same in each.
struct CompareScale {
  double largest_pairs = 1;  // of a cell of any recording
  TimelineView view;         // holds the longest recording
  // The highest and the lowest balance ceiling, as read; equal when all are alike.
  std::string best_ceiling, worst_ceiling;
};

// Draws the column of `document`. A click on its title shows that recording alone; a click on a
// cell selects its rank and goes to its step.
void draw_compare_card(const PanelContext& context, std::size_t document,
                       const CompareColumn& column, float ruler_y, const CompareScale& scale);

}  // namespace ringscope::viz

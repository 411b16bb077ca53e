// Where things stand when recordings are compared: a column each, and at the left the names of what
// the columns' rows show. The same row stands at the same height in every column.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {

struct CompareColumn {
  Box card;   // all of it
  Box title;  // click: this recording alone
  Box mask, highlights;
  Box heat;   // cells only; labels stand left of it
  Box strip;  // of the timeline, rank labels included
};

struct CompareLayout {
  Box names;  // the column at the left
  std::vector<CompareColumn> columns;
  float ruler_y = 0;  // top of the strips' rulers
  float table_y = 0, row_height = 0;
  float width = 0, height = 0;  // of everything; more than the window has when it scrolls
};

// `top_left` of what scrolls; `room` that the window has.
// `backward`: some recording has steps of both passes.
CompareLayout compare_layout(ImVec2 top_left, ImVec2 room, int columns, int ranks, int figures,
                             bool backward = false);

// ---
// One recording of a comparison: its column of pictures.

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

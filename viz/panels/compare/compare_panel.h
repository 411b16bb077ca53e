// Places the recordings of a comparison in columns, and the names of the rows at the left. The same
// row stands at the same height in every column.
#pragma once

#include <vector>

#include "viz/panels/drawing.h"

namespace ringscope::viz {

struct CompareColumn {
  Box card;   // the whole column
  Box title;  // click to show only this recording
  Box mask, highlights;
  Box heat;   // cells only; their labels stand left of it
  Box strip;  // timeline strip with its rank labels
};

struct CompareLayout {
  Box names;  // the column at the left
  std::vector<CompareColumn> columns;
  float ruler_y = 0;  // top of the strips' rulers
  float table_y = 0, row_height = 0;
  float width = 0, height = 0;  // size of everything; larger than the window when it scrolls
};

// Return the layout. `top_left` is that of the scrolling contents, `room` is the window's size, and
// `backward` tells whether any recording has steps of both passes.
CompareLayout compare_layout(ImVec2 top_left, ImVec2 room, int columns, int ranks, int figures,
                             bool backward = false);

// Draw what the other recording has that the first one has not: draw_compare()'s second view.
void draw_difference(const PanelContext& context, const Box& box);

// List the values that every recording has for this rank and step.
void draw_slot_tooltip(const PanelContext& context, std::size_t index, int rank, int step);

}  // namespace ringscope::viz

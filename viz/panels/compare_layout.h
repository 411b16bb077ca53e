// Where things stand when recordings are compared: a column each, and at the left the names of what
// the columns' rows show. The same row stands at the same height in every column.
#pragma once

#include <vector>

#include "viz/panels/drawing.h"

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

}  // namespace ringscope::viz

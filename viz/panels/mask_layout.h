// Where things stand in the mask panel: tabs on top, the square picture with its axes, and notes in
// a column beside it where there is room, else in a line below.
#pragma once

#include <string>
#include <vector>

#include "viz/panels/drawing.h"

namespace ringscope::viz {

struct MaskLayout {
  ImVec2 tabs{0, 0};
  Box picture;
  Box notes, footer;  // empty when there is no room
  bool axes = true;
};
MaskLayout mask_layout(const Box& box);

// The tabs, in the order of MaskOrder.
const std::vector<std::string>& mask_order_names();

}  // namespace ringscope::viz

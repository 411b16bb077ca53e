// Places the parts of the mask panel: the tabs on top, the square picture with its axes, and the
// notes in a column beside it if there is room, else in a line below.
#pragma once

#include <string>
#include <vector>

#include "viz/panels/drawing.h"

namespace ringscope::viz {

struct MaskLayout {
  ImVec2 tabs{0, 0};
  Box picture;
  Box notes, footer;  // empty if there is no room
  bool axes = true;
};
MaskLayout mask_layout(const Box& box);

// The names of the tabs, in the order of MaskOrder.
inline const std::vector<std::string> kMaskOrders = {"global order", "local order"};
// Draw tabs of these names that choose the session's order.
void choose_mask_order(const PanelContext& context, ImVec2 top_left,
                       const std::vector<std::string>& names);

// ---
// The mask is drawn as a texture in a rectangle of the window, repainted only when it changes.

struct MaskPicture {
  std::string slot;  // texture slot
  std::size_t document = 0;
  MaskOrder order = MaskOrder::global;
  int only_rank = -1;
};

// Draw the mask of a document into `box`. The document must have a mask.
void draw_mask_picture(const PanelContext& context, const MaskPicture& picture, const Box& box);

// Return the rectangles of a mask's picture that `rank` covers with the block of `owner`, or none
// if the rows of either are strided.
std::vector<Box> region_boxes(const MaskModel& model, MaskOrder order, const Box& picture, int rank,
                              int owner);

}  // namespace ringscope::viz

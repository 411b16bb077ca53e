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

// ---
// The mask as a texture for a rectangle of the window, repainted only when what it shows changed.

struct MaskPicture {
  std::string slot;  // of the texture
  std::size_t document = 0;
  MaskOrder order = MaskOrder::global;
  int only_rank = -1;
  bool whole = false;  // as if all were done
};

// Draws the mask of a document that has one into `box`.
void draw_mask_picture(const PanelContext& context, const MaskPicture& picture, const Box& box);

// The parts of a mask's picture that `rank` with the block of `owner` covers: one or more
// rectangles; none where its rows are strewn all over.
std::vector<Box> region_boxes(const MaskModel& model, MaskOrder order, const Box& picture, int rank,
                              int owner);

// Where rank r's rows begin in local order, as a share of all; r in [0, world_size].
double local_begin(const MaskModel& model, int rank);

}  // namespace ringscope::viz

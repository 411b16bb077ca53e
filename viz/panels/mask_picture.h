// The mask as a texture for a rectangle of the window, repainted only when what it shows changed.
#pragma once

#include <string>

#include "viz/panels/drawing.h"

namespace ringscope::viz {

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

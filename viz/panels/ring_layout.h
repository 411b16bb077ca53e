// Where ranks and blocks stand in the ring's picture: ranks on a circle, rank 0 on top, the
// direction of sending clockwise; outside it the orbit on which KV blocks lie and travel.
#pragma once

#include "viz/panels/drawing.h"

namespace ringscope::viz {

struct RingLayout {
  ImVec2 center{0, 0};
  float radius = 0;  // of the circle of ranks
  float orbit = 0;   // of the circle of blocks
  float disc = 0;    // radius of a rank's disc
  float tile_w = 0, tile_h = 0;
  int ranks = 0;

  // Fractions of a rank lie between it and the next one.
  double angle(double rank) const;
  ImVec2 at(double rank, float distance) const;
  Box tile(double rank, float scale = 1) const;
  // The rank whose disc or tile is under the mouse; -1: none.
  int rank_at(ImVec2 mouse) const;
};
RingLayout ring_layout(const Box& box, int ranks);

}  // namespace ringscope::viz

// Places ranks and blocks in the ring's picture: ranks lie on a circle with rank 0 on top, and
// sending goes clockwise. KV blocks lie and travel on an orbit outside it.
#pragma once

#include "viz/panels/drawing.h"

namespace ringscope::viz {

struct RingLayout {
  ImVec2 center{0, 0};
  float radius = 0;  // radius of the circle of ranks
  float orbit = 0;   // radius of the circle of blocks
  float disc = 0;    // radius of a rank's disc
  float tile_w = 0, tile_h = 0;
  int ranks = 0;

  // Return the angle of a rank. A fractional rank lies between two ranks.
  double angle(double rank) const;
  ImVec2 at(double rank, float distance) const;
  Box tile(double rank, float scale = 1) const;
  // Return the rank whose disc or tile is under the mouse, or -1.
  int rank_at(ImVec2 mouse) const;
};
RingLayout ring_layout(const Box& box, int ranks);

}  // namespace ringscope::viz

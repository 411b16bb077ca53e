// The tiles that a rank computes in a whole run: those with an allowed pair.
#pragma once

#include <algorithm>

#include "core/ring/config.h"

namespace ringscope::lessons {

// Tiles of tile x tile pairs of the rank that has the most of them, over all steps. The rows of a
// rank, seqlen/world_size, must be a multiple of tile.
inline Index tiles_of_slowest_rank(const RingConfig& config, Index tile) {
  const RingProblem problem = config.problem();
  const Index rows = config.shape.seqlen / config.world_size;
  Index most = 0;
  for (int rank = 0; rank < config.world_size; ++rank) {
    Index count = 0;
    for (int owner = 0; owner < config.world_size; ++owner) {
      const ringscope::Region region = problem.region(rank, owner);
      for (Index q = 0; q < rows; q += tile)
        for (Index k = 0; k < rows; k += tile)
          count += region.tile_class({q, q + tile}, {k, k + tile}) != TileClass::empty;
    }
    most = std::max(most, count);
  }
  return most;
}

}  // namespace ringscope::lessons

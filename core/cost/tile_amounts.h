// What the CPU's tile loops (core/attention/tiles.h) go through for one head of a block. Their time
// goes by these amounts; see cpu_figures.h.
#pragma once

#include "core/partition/region.h"

namespace ringscope {

struct TileAmounts {
  double pairs = 0;         // computed: tiles' rows x their columns in whole vectors
  double rows = 0;          // of tiles that aren't empty
  double partial_rows = 0;  // those of them in tiles that aren't full either
  double keys = 0;          // of tiles of keys that aren't empty for all rows

  bool operator==(const TileAmounts&) const = default;
};

// O(tiles that aren't empty).
TileAmounts tile_amounts(const Region& region);

}  // namespace ringscope

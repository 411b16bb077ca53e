// What the CPU kernels and the ring of threads take on a machine, in processor seconds: a few more
// numbers than F and B, because short blocks have costs that do not go by pairs.
//
//   a block    pair_s         each pair of a query row and a key that is computed, of one head: tiles
//                             of kTileRows rows, columns in whole vectors (core/attention/tiles.h)
//              row_s          each row of each tile: row_max and row_sum, Q brought to f32
//              partial_row_s  besides, where the tile is partial: its mask
//              key_s          each key of the tiles that aren't empty: K transposed, V brought to f32
//   a rank     start_s        its thread
//              value_s        each value of Q: beginning and finishing a pass
//   a hop      hop_s          starting it, waking who waits for it
//              byte_s         besides, each byte copied
//   gradients  add_s          each value that is added to a sum
//
// Rates alone (core/cost/rates.h) are the limit of large blocks: F = 4 head_dim / pair_s.
#pragma once

#include "core/cost/tile_amounts.h"
#include "core/trace/event.h"

namespace ringscope {

struct KernelFigures {
  double pair_s = 0, row_s = 0, partial_row_s = 0, key_s = 0;
  double value_s = 0;

  // Of a block, for so many heads of queries and of keys.
  double seconds(const TileAmounts& block, double heads, double heads_kv) const {
    return heads *
               (pair_s * block.pairs + row_s * block.rows + partial_row_s * block.partial_rows) +
           heads_kv * key_s * block.keys;
  }
};

struct HopFigures {
  double hop_s = 0, byte_s = 0;
};

struct CpuFigures {
  KernelFigures forward, backward;
  double add_s = 0;
  double start_s = 0;  // of a rank's thread
  HopFigures hops;

  const KernelFigures& kernel(Pass pass) const {
    return pass == Pass::forward ? forward : backward;
  }
};

}  // namespace ringscope

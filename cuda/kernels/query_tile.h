// The query rows that one block owns and the key tiles that they meet: the head comment of
// ring_step.h on intervals, as a struct.
#pragma once

#include <cuda_runtime.h>

#include "cuda/kernels/ring_step.h"

namespace ringscope::cuda {

// Return how many tiles of `tile_rows` rows cover `rows` rows.
__host__ __device__ constexpr int tiles_for(int rows, int tile_rows) {
  return (rows + tile_rows - 1) / tile_rows;
}

struct QueryTile {
  int first_row;
  int rows;                   // at least 1
  RowInterval needed_keys;    // no row attends a key outside
  RowInterval unmasked_keys;  // every row attends every key inside

  // Return tile `index` of tile_rows rows, of a block of rows_q rows. index < tiles_for(rows_q,
  // tile_rows).
  __host__ __device__ static constexpr QueryTile at(int index, int tile_rows, int rows_q,
                                                    const RowInterval* allowed_keys) {
    const int first = index * tile_rows;
    const int rows = rows_q - first < tile_rows ? rows_q - first : tile_rows;
    const RowInterval top = allowed_keys[first], bottom = allowed_keys[first + rows - 1];
    return {first, rows, {top.first, bottom.last}, {bottom.first, top.last}};
  }

  // Key tiles [first_key_tile, last_key_tile) of tile_keys keys must be visited.
  __host__ __device__ constexpr int first_key_tile(int tile_keys) const {
    return needed_keys.first / tile_keys;
  }
  __host__ __device__ constexpr int last_key_tile(int tile_keys) const {
    return needed_keys.first < needed_keys.last ? tiles_for(needed_keys.last, tile_keys)
                                                : first_key_tile(tile_keys);
  }

  // Whether keys [begin, end) need no mask. A tile that reaches past rows_k needs one.
  __host__ __device__ constexpr bool is_full(int begin, int end) const {
    return unmasked_keys.first <= begin && end <= unmasked_keys.last;
  }
};

}  // namespace ringscope::cuda

// The order in which kernel 11 works: which keys are an item, which tiles of queries visit them and
// when, and whose turn it is to add to a tile's dQ. The kernel follows it, and so does a simulation
// in the tests, which shows how long blocks wait for their turns.
//
// Items are numbered by key tile, then by (batch, kv head). Blocks take them in that order, so
// whoever holds a turn is running. The last tile of queries visits first, all heads of the group
// after one another, and then the tile before it. Under a causal mask the blocks of later keys meet
// only the last queries. They come to them as early as the blocks of the first keys do, so each
// tile's turns pass from block to block as fast as the blocks start.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/kernels/ring_step.h"

namespace ringscope::cuda {

inline constexpr int kOnePassKeys = 128;    // that a block owns
inline constexpr int kOnePassQueries = 64;  // that visit it at a time

// An item: keys of one (batch, kv head), and the tiles of queries that visit them.
struct OnePassItem {
  RowTile own;
  int tile;                       // of keys
  int first_tile, last_tile;      // of queries that visit
  int last_turn;                  // tile after the last one with a turn to pass
  int first_matrix, last_matrix;  // of queries, batch * heads + head
  int own_matrix;                 // batch * heads_kv + head

  static __host__ __device__ __forceinline__ unsigned items(const StepShape& shape) {
    return static_cast<unsigned>(tiles_for(shape.rows_k, kOnePassKeys)) *
           static_cast<unsigned>(shape.batch * shape.heads_kv);
  }

  __host__ __device__ __forceinline__ void set(const BackwardStep& step, unsigned item) {
    const StepShape& shape = step.shape;
    const auto matrices = static_cast<unsigned>(shape.batch * shape.heads_kv);
    const unsigned its_tile = item / matrices;
    tile = static_cast<int>(its_tile);
    own_matrix = static_cast<int>(item - its_tile * matrices);
    own = RowTile::at(tile, kOnePassKeys, shape.rows_k, step.allowed_queries);
    first_tile = own.first_visitor(kOnePassQueries);
    last_tile = own.last_visitor(kOnePassQueries);
    // Keys that no query meets still stand between others, and may have a turn at one tile.
    const int end = tiles_for(own.needed.last, kOnePassQueries);
    last_turn = end > last_tile ? end : last_tile;
    const int group = shape.heads / shape.heads_kv;
    first_matrix = own_matrix * group;
    last_matrix = first_matrix + group;
  }

  __host__ __device__ __forceinline__ int heads() const { return last_matrix - first_matrix; }
  __host__ __device__ __forceinline__ int visits() const {
    return (last_tile - first_tile) * heads();
  }
  // Return the tile of queries of the item's nth visit, whose head is the (n mod heads())th.
  __host__ __device__ __forceinline__ int visiting_tile(unsigned n) const {
    return last_tile - 1 - static_cast<int>(n / static_cast<unsigned>(heads()));
  }
  // Call f(matrix, tile) for the visits of the tiles before `end`, in their order. It is one loop,
  // because a producer has no registers for what is the same in all heads.
  template <class F>
  __host__ __device__ __forceinline__ void for_each_visit(int end, const F& f) const {
    int visiting = end - 1, matrix = first_matrix;
#pragma unroll 1
    while (visiting >= first_tile) {
      f(matrix, visiting);
      if (++matrix < last_matrix) continue;
      matrix = first_matrix;
      --visiting;
    }
  }
};

// Return the key tile that has the first turn at the tile of queries whose first row is `row`: the
// first that some query from `row` on meets.
__host__ __device__ __forceinline__ int first_turn(const BackwardStep& step, int row) {
  int first = 0, last = tiles_for(step.shape.rows_k, kOnePassKeys);
  while (first < last) {
    const int middle = first + (last - first) / 2, end = (middle + 1) * kOnePassKeys;
    if (step.allowed_queries[(end < step.shape.rows_k ? end : step.shape.rows_k) - 1].last <= row)
      first = middle + 1;
    else
      last = middle;
  }
  return first;
}

}  // namespace ringscope::cuda

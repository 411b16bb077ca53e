// Assigns work to blocks when a grid has one block per multiprocessor and more items than blocks.
// An item is a tile of query rows of one (batch, head).
//
// Longest first: under a causal mask, and more so under windows, documents or a step of a zigzag
// ring, tiles have very different numbers of key tiles. A long one that starts late runs alone at
// the end. So items are ordered by key tiles, most first. All (batch, head) of one row tile stand
// together, because they cost the same (and neighbouring heads read the same K and V).
//
// L2: where K and V of all heads are more than the cache holds, the heads come in groups, one after
// the other. Groups take turns at going down from the most key tiles and up to them, so costs never
// jump from one to the next, and the last goes down. (If each went down, some blocks would have 1.2
// to 1.8 times the mean work; so it is 1.00, but for groups of less than three rounds.)
//
// To and fro: in this order, block b takes item b of the first `blocks` items, the b-th last of the
// next `blocks`, and so on. That evens out what a block gains by coming early in a round. It needs
// no counter in memory and is the same in every run.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/kernels/ring_step.h"

namespace ringscope::cuda {

// Return the item that `block` of `blocks` takes in round `round`. A result >= the number of items
// means none, which only happens in a last, incomplete round. Items are fewer than 2^31 - blocks.
__host__ __device__ constexpr int item_of(int block, int blocks, int round) {
  const int place = round % 2 == 0 ? block : blocks - 1 - block;
  return round * blocks + place;
}

__host__ __device__ constexpr int rounds_of(int items, int blocks) {
  return (items + blocks - 1) / blocks;
}

// Return the place of row tile `tile` in the order of cost, most first, ties by number. O(tiles).
__host__ __device__ constexpr int place_by_cost(const std::uint16_t* costs, int tiles, int tile) {
  int place = 0;
  for (int other = 0; other < tiles; ++other)
    place += costs[other] > costs[tile] || (costs[other] == costs[tile] && other < tile);
  return place;
}

// Each block orders the tiles in shared memory while it starts, which takes some tiles^2 / 384
// steps. Beyond this many tiles (256k rows on one device) the order is from last to first instead.
inline constexpr int kMaxOrderedTiles = 2048;

struct PersistentItem {
  int row_tile;
  int matrix;  // batch * heads + head
};

// The items of a launch: row tiles x matrices, in groups of `together` matrices, the last perhaps
// smaller. It is computed once, because a thread that produces has no registers for it.
struct PersistentOrder {
  int row_tiles, matrices, together;
  int group_items, groups, items;

  static constexpr PersistentOrder of(int row_tiles, int matrices, int together) {
    if (row_tiles == 0 || matrices == 0) return {row_tiles, matrices, 1, 1, 0, 0};
    return {row_tiles,
            matrices,
            together,
            row_tiles * together,
            tiles_for(matrices, together),
            row_tiles * matrices};
  }

  // `order` lists row tiles by place, or is null for last to first.
  __host__ __device__ constexpr PersistentItem at(int item, const std::uint16_t* order) const {
    const int group = item / group_items, in_group = item - group * group_items;
    const int first = group * together;
    const int size = matrices - first < together ? matrices - first : together;
    int place = in_group / size;
    const int matrix = first + in_group - place * size;
    if ((groups - group) % 2 == 0) place = row_tiles - 1 - place;  // goes up
    return {order != nullptr ? order[place] : row_tiles - 1 - place, matrix};
  }
};

// Return how many matrices (batch * heads) make a group: whole groups of query heads, whose K and V
// fit two thirds of an L2 cache of `l2_bytes`, but at least three rounds of `blocks` items. The
// rest of the cache is for Q and out, which pass through.
constexpr int matrices_together(const StepShape& shape, int row_tiles, int blocks,
                                std::int64_t l2_bytes) {
  const int matrices = shape.batch * shape.heads, group = shape.heads / shape.heads_kv;
  if (row_tiles == 0) return matrices;
  const std::int64_t kv_bytes =
      std::int64_t{shape.rows_k} * (shape.head_dim + shape.value_dim()) * 2;
  const std::int64_t most = kv_bytes > 0 ? l2_bytes * 2 / 3 / kv_bytes : matrices;
  const std::int64_t least = (std::int64_t{3} * blocks + row_tiles - 1) / row_tiles;
  std::int64_t together = (most > 1 ? most : 1) * group;
  const bool is_short = together < least;
  if (is_short) together = (least + group - 1) / group * group;
  if (together >= matrices) return matrices;
  const int size = static_cast<int>(together);
  const int groups = is_short ? matrices / size : tiles_for(matrices, size);  // of even sizes
  return tiles_for(tiles_for(matrices, groups), group) * group;
}

}  // namespace ringscope::cuda

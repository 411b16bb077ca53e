// Assigns work to blocks when a grid has one block per multiprocessor and more items than blocks.
// An item is a tile of query rows of one (batch, head).
//
// Longest first: under a causal mask, and more so under windows, documents or a step of a zigzag
// ring, tiles have very different numbers of key tiles. A long one that starts late runs alone at
// the end. So items are ordered by key tiles, most first. All (batch, head) of one row tile stand
// together, because they cost the same (and neighbouring heads read the same K and V).
//
// To and fro: in this order, block b takes item b of the first `blocks` items, the b-th last of the
// next `blocks`, and so on. That evens out what a block gains by coming early in a round. It needs
// no counter in memory and is the same in every run.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

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

// `order` lists row tiles by place, or is null for last to first.
__host__ __device__ constexpr PersistentItem persistent_item(int item, int row_tiles, int matrices,
                                                             const std::uint16_t* order) {
  const int place = item / matrices;
  const int row_tile = order != nullptr ? order[place] : row_tiles - 1 - place;
  return {row_tile, item % matrices};
}

}  // namespace ringscope::cuda

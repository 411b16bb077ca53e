// How a backward pass in one launch (09, 11) is divided among blocks: which keys are an item, which
// tiles of queries visit them and when, whose turn it is to add to a tile's dQ, and where blocks find
// all that. A simulation in the tests follows the order, too, and shows how long blocks wait for
// their turns.
//
// Blocks take items in the order of their numbers, and the key tiles of one (batch, kv head) ascend in it,
// so whoever holds a turn is running. The last tile of queries visits first, all heads of the group
// after one another, and then the tile before it. Under a causal mask the blocks of later keys meet
// only the last queries. They come to them as early as the blocks of the first keys do, so each
// tile's turns pass from block to block as fast as the blocks start.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "cuda/base/launch.h"
#include "cuda/kernels/backward_rows.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/kernels/ring_step.h"

namespace ringscope::cuda {

inline constexpr int kOnePassKeys = 128;  // that a block owns

// Return how many (batch, kv head)s have their items numbered by key tile together: so many that a block
// has two items of them. Then their Q, dO and dQ stay in the L2 cache more often than those of all
// would, and a causal mask's long items, which come first, still find short ones to even them out.
inline unsigned matrices_at_once(const StepShape& shape, unsigned blocks) {
  const auto tiles = static_cast<unsigned>(tiles_for(shape.rows_k, kOnePassKeys));
  return std::max(1u, 2 * blocks / std::max(1u, tiles));
}

// An item: keys of one (batch, kv head), and the tiles of kQueries queries that visit them, of all query
// heads or of one.
template <int kQueries, bool kByHead = false>
struct OnePassItem {
  RowTile own;
  int tile;                       // of keys
  int first_tile, last_tile;      // of queries that visit
  int last_turn;                  // tile after the last one with a turn to pass
  int first_store;                // of the visiting tiles from here on dQ is stored, not added to
  int first_matrix, last_matrix;  // of queries, batch * heads + head
  int own_matrix;                 // batch * heads_kv + head

  // Return the (batch, head)s that have items.
  static __host__ __device__ __forceinline__ unsigned matrices_of(const StepShape& shape) {
    return static_cast<unsigned>(shape.batch * (kByHead ? shape.heads : shape.heads_kv));
  }
  static __host__ __device__ __forceinline__ unsigned items(const StepShape& shape) {
    return static_cast<unsigned>(tiles_for(shape.rows_k, kOnePassKeys)) * matrices_of(shape);
  }

  __host__ __device__ __forceinline__ void set(const BackwardStep& step, unsigned item,
                                               unsigned at_once) {
    const StepShape& shape = step.shape;
    const auto tiles = static_cast<unsigned>(tiles_for(shape.rows_k, kOnePassKeys));
    const unsigned first = item / (tiles * at_once) * at_once, after = item - first * tiles;
    const unsigned left = matrices_of(shape) - first;
    const unsigned matrices = left < at_once ? left : at_once;
    tile = static_cast<int>(after / matrices);
    own_matrix = static_cast<int>(first + after % matrices);
    own = RowTile::at(tile, kOnePassKeys, shape.rows_k, step.allowed_queries);
    first_tile = own.first_visitor(kQueries);
    last_tile = own.last_visitor(kQueries);
    // Keys that no query meets still stand between others, and may have a turn at one tile.
    const int end = tiles_for(own.needed.last, kQueries);
    last_turn = end > last_tile ? end : last_tile;
    const int group = shape.heads / shape.heads_kv;
    if constexpr (kByHead) {
      first_matrix = own_matrix;
      last_matrix = first_matrix + 1;
      own_matrix /= group;
    } else {
      first_matrix = own_matrix * group;
      last_matrix = first_matrix + group;
    }
    first_store = last_tile;
    if (step.first) first_store = first_tile_without_visitor_before(step);
  }

  __host__ __device__ __forceinline__ int heads() const { return last_matrix - first_matrix; }
  __host__ __device__ __forceinline__ int visits() const {
    return (last_tile - first_tile) * heads();
  }
  // Return the tile of queries of the item's nth visit, and their matrix.
  __host__ __device__ __forceinline__ int visiting_tile(unsigned n) const {
    return last_tile - 1 - static_cast<int>(n / static_cast<unsigned>(heads()));
  }
  __host__ __device__ __forceinline__ int visiting_matrix(unsigned n) const {
    return first_matrix + static_cast<int>(n % static_cast<unsigned>(heads()));
  }
  // Return the first tile of queries that no key tile before this one is visited by. The ends of
  // visits never decrease, so these keys are the first of all tiles from there on.
  __host__ __device__ __forceinline__ int first_tile_without_visitor_before(
      const BackwardStep& step) const {
#pragma unroll 1
    for (int before = tile - 1; before >= 0; --before) {
      const RowInterval needed =
          RowTile::at(before, kOnePassKeys, step.shape.rows_k, step.allowed_queries).needed;
      if (needed.first < needed.last) return tiles_for(needed.last, kQueries);
    }
    return 0;
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

// How BackwardStep's workspace is used.
template <int kQueries>
struct OnePassWorkspace {
  unsigned long long* taken;    // items that blocks have taken
  float (*notes)[2][kQueries];  // [batch * heads, tiles of queries]: units and deltas
  int* turns;                   // likewise: the key tile whose dQ comes next
  unsigned at_once;             // matrices_at_once

  OnePassWorkspace(const BackwardStep& step, unsigned blocks)
      : at_once(matrices_at_once(step.shape, blocks)) {
    auto* const bytes = static_cast<unsigned char*>(step.workspace);
    const std::int64_t tiles =
        std::int64_t{step.shape.batch} * step.shape.heads * tiles_for(step.shape.rows_q, kQueries);
    taken = reinterpret_cast<unsigned long long*>(bytes);
    notes = reinterpret_cast<float(*)[2][kQueries]>(bytes + 16);
    turns = reinterpret_cast<int*>(notes + tiles);
  }
  // Return where heads of a group take turns, after all else: [batch * heads_kv, tiles of keys], the head
  // whose dK and dV come next.
  __host__ __device__ int* head_turns(const StepShape& shape) const {
    return turns + std::int64_t{shape.batch} * shape.heads * tiles_for(shape.rows_q, kQueries);
  }

  // Return the number of the item that the calling block does next.
  __device__ __forceinline__ unsigned take() const {
    return static_cast<unsigned>(atomicAdd(taken, 1ull));
  }
};

// Fill the workspace, with deltas multiplied by a factor. In a first step, zero dQ of the queries without
// keys, whose tiles may have no visitor. Grid: heads of tiles of queries, batch (TileAndHead), and at
// least one block.
template <int kQueries>
__global__ void prepare(const BackwardStep step, const OnePassWorkspace<kQueries> workspace,
                        const float delta_factor) {
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) *workspace.taken = 0;
  const StepShape& shape = step.shape;
  if (shape.rows_q == 0) return;
  const auto [tile, head] = TileAndHead::of(blockIdx.x, shape.heads);
  const std::int64_t matrix = std::int64_t{blockIdx.y} * shape.heads + head;
  const std::int64_t at = matrix * tiles_for(shape.rows_q, kQueries) + tile;
  const int row = tile * kQueries + static_cast<int>(threadIdx.x);
  // Rows without keys, or past the end, have P = exp2(t - inf) = 0.
  float unit = std::numeric_limits<float>::infinity(), delta = 0;
  if (row < shape.rows_q) {
    const std::int64_t of_row = matrix * shape.rows_q + row;
    unit = base2_unit(step.row_max[of_row], step.row_sum[of_row]);
    delta = delta_factor * step.delta[of_row];
    const RowInterval keys = step.allowed_keys[row];
    if (step.first && keys.first >= keys.last)
      for (int x = 0; x < shape.head_dim; ++x) step.dq[of_row * shape.head_dim + x] = 0;
  }
  workspace.notes[at][0][threadIdx.x] = unit;
  workspace.notes[at][1][threadIdx.x] = delta;
  if (threadIdx.x == 0) workspace.turns[at] = first_turn(step, row);
}

// Enqueue that, and return the workspace.
template <int kQueries>
OnePassWorkspace<kQueries> prepared_workspace(const BackwardStep& step, cudaStream_t stream,
                                              float delta_factor = 1) {
  const StepShape& shape = step.shape;
  const OnePassWorkspace<kQueries> workspace(step, static_cast<unsigned>(multiprocessors()));
  dim3 grid = TileAndHead::grid(tiles_for(shape.rows_q, kQueries), shape.heads, shape.batch);
  if (shape.rows_q == 0) grid = dim3(1);
  launch(prepare<kQueries>, {grid, dim3(kQueries)}, stream, step, workspace, delta_factor);
  return workspace;
}

}  // namespace ringscope::cuda

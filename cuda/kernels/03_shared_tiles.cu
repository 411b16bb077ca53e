// Step 03: tiles in shared memory. A block owns 32 query rows. It copies 32 keys of K and V into
// shared memory once, and all its rows attend them there.
//
// Compared with 02, K and V come from the L2 cache once for 32 rows instead of once per row, so a
// key's 8 * head_dim bytes serve 32 times the arithmetic. It is still slow because each
// multiplication reads both of its factors from shared memory.
//
// Each of 8 warps has 4 rows. It treats a row as in 02: m = row_max, l = row_sum and O = out are in
// registers, and S has one key per lane. But P goes through shared memory instead of shuffles.
// Tiles that no row of the block needs are not visited; tiles that all rows need whole (full ones)
// need no mask tests.
//
// Key rows that no row of the block may attend are zeros in shared memory, whatever global memory
// holds. Within a tile a forbidden pair has P = 0, so a NaN in V reaches all rows of a block that
// has it in its tile: exact locality is not promised there.
#include "cuda/base/launch.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/kernels/row_state.h"

namespace ringscope::cuda {
namespace {

constexpr int kRows = 32;
constexpr int kKeys = 32;
constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kRowsEach = kRows / kWarps;  // rows of a warp: warp, warp + kWarps, ...

// [storage
template <int kDim>
struct Storage {
  float q[kRows][kDim];
  float k[kKeys][kDim + 1];  // lanes read one column of 32 rows: an odd stride, so 32 banks
  float v[kKeys][kDim];
  float p[kRows][kKeys];
};
// storage]

// Load rows [begin, begin + 32) of a tensor's head, as zeros outside `wanted` and beyond head_dim.
template <int kStride>
__device__ void load_rows(float (&to)[32][kStride], const float* from, int begin,
                          const RowInterval& wanted, int head_dim) {
  for (int i = threadIdx.x; i < 32 * kStride; i += kThreads) {
    const int row = begin + i / kStride, x = i % kStride;
    const bool inside = wanted.first <= row && row < wanted.last && x < head_dim;
    to[i / kStride][x] = inside ? from[static_cast<std::int64_t>(row) * head_dim + x] : 0.0f;
  }
}

// One row of a warp.
template <int kDim>
struct Row {
  float row_max;
  float row_sum;  // this step's, of this lane's keys
  float out[kDim / 32];
};

// Attend the keys in shared memory, of which key0 is the first, with one row.
template <bool kMasked, int kDim>
__device__ void attend(Storage<kDim>& shared, int local_row, int key0, RowInterval allowed,
                       float softmax_scale, Row<kDim>& row) {
  const int lane = threadIdx.x % 32;
  float score = 0;
#pragma unroll 16
  for (int x = 0; x < kDim; ++x) score = fmaf(shared.q[local_row][x], shared.k[lane][x], score);
  score *= softmax_scale;
  if (kMasked && !(allowed.first <= key0 + lane && key0 + lane < allowed.last)) score = kNoKeys;

  const float new_max = fmaxf(row.row_max, max_over_lanes(score));
  const float factor = rescale_factor(row.row_max, new_max);
  const float p = expf(score - exponent_unit(new_max));
  row.row_max = new_max;
  row.row_sum = row.row_sum * factor + p;
#pragma unroll
  for (float& out : row.out) out *= factor;
  shared.p[local_row][lane] = p;
  __syncwarp();  // lanes are columns of O from here on, and need all of P's row
#pragma unroll 8
  for (int j = 0; j < kKeys; ++j) {
#pragma unroll
    for (int c = 0; c < kDim / 32; ++c)
      row.out[c] = fmaf(shared.p[local_row][j], shared.v[j][lane + 32 * c], row.out[c]);
  }
}

// Shared memory holds one block of the widest kind per multiprocessor, so it may have all registers
// (0: let the compiler choose).
template <int kDim>  // head_dim and value_dim() are at most that
__global__ __launch_bounds__(kThreads, kDim > 128 ? 1 : 0) void shared_tiles(ForwardStep step) {
  Storage<kDim>& shared = shared_memory<Storage<kDim>>();
  const StepShape& shape = step.shape;
  const int d = shape.head_dim, d_v = shape.value_dim();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int head = blockIdx.y, batch = blockIdx.z;
  const std::int64_t first_query = row_index(shape, batch, head, 0);
  const std::int64_t first_key = key_index(shape, batch, head, 0);
  const float* const k = static_cast<const float*>(step.k) + first_key * d;
  const float* const v = static_cast<const float*>(step.v) + first_key * d_v;
  const RowTile tile = RowTile::at(blockIdx.x, kRows, shape.rows_q, step.allowed_keys);

  load_rows(shared.q, static_cast<const float*>(step.q) + first_query * d, tile.first,
            {tile.first, tile.first + tile.rows}, d);
  Row<kDim> rows[kRowsEach];
  RowInterval allowed[kRowsEach];
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    const int row = tile.first + warp + kWarps * r;
    const bool exists = row < shape.rows_q;
    allowed[r] = exists ? step.allowed_keys[row] : RowInterval{0, 0};
    rows[r].row_max = exists ? carried_row(step, first_query + row).row_max : kNoKeys;
    rows[r].row_sum = 0;
#pragma unroll
    for (int c = 0; c < kDim / 32; ++c) {
      const int x = lane + 32 * c;
      const bool carried = exists && !step.first && x < d_v;
      rows[r].out[c] = carried ? step.out[(first_query + row) * d_v + x] : 0.0f;
    }
  }

  for (int t = tile.first_visitor(kKeys); t < tile.last_visitor(kKeys); ++t) {
    const int key0 = t * kKeys;
    // [tile
    __syncthreads();  // nobody reads the last tile any more
    load_rows(shared.k, k, key0, tile.needed, d);
    load_rows(shared.v, v, key0, tile.needed, d_v);
    __syncthreads();  // the tile is complete, and Q is
    // tile]
    const bool full = tile.is_full(key0, key0 + kKeys);
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) {
      const int local_row = warp + kWarps * r;
      if (full)
        attend<false>(shared, local_row, key0, allowed[r], step.softmax_scale, rows[r]);
      else
        attend<true>(shared, local_row, key0, allowed[r], step.softmax_scale, rows[r]);
    }
  }

#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    const int row = tile.first + warp + kWarps * r;
    const float step_sum = sum_over_lanes(rows[r].row_sum);
    if (row >= shape.rows_q) continue;  // the same for all lanes
    const std::int64_t query = first_query + row;
    const EndedRow ended =
        ended_row(step, head, carried_row(step, query), rows[r].row_max, step_sum);
#pragma unroll
    for (int c = 0; c < kDim / 32; ++c) {
      const int x = lane + 32 * c;
      if (x < d_v) step.out[query * d_v + x] = stored_out(step, rows[r].out[c], ended);
    }
    __syncwarp();  // all lanes have read the state
    if (lane == 0) store_row(step, query, ended);
  }
  if (warp == 0)
    count_visits(step.counters, tile, head + batch == 0 ? step.allowed_keys : nullptr, kKeys,
                 shape.rows_k);
}

constexpr TileShape kTiles[] = {{kRows, kKeys}};

// More than 99 KiB, which is all that a block of some devices may have, beyond head_dim 128.
std::size_t shared_bytes(HeadDims dims, int) {
  std::size_t bytes = 0;
  visit_head_dim(dims.wider(), [&](auto dim) { bytes = sizeof(Storage<dim()>); });
  return bytes;
}

void launch_step(const ForwardStep& step, DType, int, cudaStream_t stream) {
  const StepShape& shape = step.shape;
  const dim3 grid(tiles_for(shape.rows_q, kRows), shape.heads, shape.batch);
  visit_head_dim(HeadDims(shape).wider(), [&](auto dim) {
    launch(shared_tiles<dim()>, {grid, kThreads, sizeof(Storage<dim()>)}, stream, step);
  });
}

}  // namespace

constinit const Kernel shared_tiles_kernel{
    .number = 3,
    .name = "shared_tiles",
    .idea = "K and V come into shared memory once for all rows of a block",
    .tiles = kTiles,
    .shared_bytes = shared_bytes,
    .launch_forward = launch_step};

}  // namespace ringscope::cuda

// Step 04: tiles in registers. As in 03, a block copies K and V to shared memory for all its rows.
// But now a thread computes a small rectangle of S, and of O, at once. With 4 rows of Q and 4 rows
// of K in registers, each value read serves 4 products instead of one.
//
//   S = softmax_scale Q K^T   thread (y, x) of 16 x 16 owns rows y, y+16, .. and keys x, x+16, ..
//   P = exp(S - m)            through shared memory, where the same half warp reads it back
//   O += P V                  the same rows, and columns 4x .. 4x+3, 64+4x .. , four at a time
//   m, l                      each of the 16 threads that share a row has its m; l covers only the
//                             thread's own keys, and is summed over the 16 at the end
//
// Compared with 03, for a tile of 64 x 64, 8 vector loads from shared memory feed 64 products,
// where 03 needs 2 loads for each, so arithmetic becomes the limit instead of shared memory. Memory
// is read and written four floats at a time. Rows in shared memory are padded by one such vector,
// so that 8 threads that read 8 rows at once use all 32 banks.
//
// Key rows that no row of the block may attend are zeros in shared memory. Within a tile a
// forbidden pair has P = 0, so a NaN in V reaches all rows of a block that has it in its tile.
#include "cuda/base/launch.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/kernels/row_state.h"
#include "cuda/kernels/vector_rows.h"

namespace ringscope::cuda {
namespace {

constexpr int kSide = 16;  // threads across and down a tile
constexpr int kThreads = kSide * kSide;

template <int kRows, int kKeys, int kDim>
struct Storage {
  float q[kRows][kDim + kVector];
  float k[kKeys][kDim + kVector];
  float v[kKeys][kDim];
  float p[kRows][kKeys + kSide];  // rows are 16 banks apart, so a warp writes to all 32
};

__device__ __forceinline__ float dot(const float4& a, const float4& b, float sum) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}
__device__ __forceinline__ void add_product(float4& sum, float a, const float4& b) {
  sum.x = fmaf(a, b.x, sum.x);
  sum.y = fmaf(a, b.y, sum.y);
  sum.z = fmaf(a, b.z, sum.z);
  sum.w = fmaf(a, b.w, sum.w);
}

// What a thread keeps from tile to tile.
template <int kRows, int kDim>
struct ThreadRows {
  static constexpr int kRowsEach = kRows / kSide;
  static constexpr int kVectors = kDim / (kSide * kVector);

  float row_max[kRowsEach];
  float row_sum[kRowsEach];  // this step's, of this thread's keys
  float4 out[kRowsEach][kVectors];
};

// Compute S, P and O for the tile in shared memory. key0 is its first key, row0 its first row.
template <bool kMasked, int kRows, int kKeys, int kDim>
__device__ __forceinline__ void attend(Storage<kRows, kKeys, kDim>& shared, const ForwardStep& step,
                                       int row0, int key0, ThreadRows<kRows, kDim>& mine) {
  constexpr int kRowsEach = kRows / kSide, kKeysEach = kKeys / kSide;
  const int y = threadIdx.x / kSide, x = threadIdx.x % kSide;

  float s[kRowsEach][kKeysEach] = {};
#pragma unroll 1  // more would not fit into registers
  for (int column = 0; column < kDim; column += kVector) {
    float4 q[kRowsEach], k[kKeysEach];
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) q[i] = vector_at(&shared.q[y + kSide * i][column]);
#pragma unroll
    for (int j = 0; j < kKeysEach; ++j) k[j] = vector_at(&shared.k[x + kSide * j][column]);
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i)
#pragma unroll
      for (int j = 0; j < kKeysEach; ++j) s[i][j] = dot(q[i], k[j], s[i][j]);
  }

#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
    const int row = y + kSide * i;
    RowInterval allowed{};
    if (kMasked && row0 + row < step.shape.rows_q) allowed = step.allowed_keys[row0 + row];
    float largest = kNoKeys;
#pragma unroll
    for (int j = 0; j < kKeysEach; ++j) {
      const int key = key0 + x + kSide * j;
      s[i][j] *= step.softmax_scale;
      if (kMasked && !(allowed.first <= key && key < allowed.last)) s[i][j] = kNoKeys;
      largest = fmaxf(largest, s[i][j]);
    }
    const float new_max = fmaxf(mine.row_max[i], max_over_lanes<kSide>(largest));
    const float factor = rescale_factor(mine.row_max[i], new_max);
    mine.row_max[i] = new_max;
    mine.row_sum[i] *= factor;
#pragma unroll
    for (float4& out : mine.out[i])
      out = make_float4(out.x * factor, out.y * factor, out.z * factor, out.w * factor);
#pragma unroll
    for (int j = 0; j < kKeysEach; ++j) {
      const float p = expf(s[i][j] - exponent_unit(new_max));
      mine.row_sum[i] += p;
      shared.p[row][x + kSide * j] = p;
    }
  }
  __syncwarp();  // the same half warp writes and reads a row of P

#pragma unroll 1  // more would not fit into registers
  for (int key = 0; key < kKeys; key += kVector) {
    float4 p[kRowsEach];
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) p[i] = vector_at(&shared.p[y + kSide * i][key]);
#pragma unroll
    for (int j = 0; j < kVector; ++j)
#pragma unroll
      for (int c = 0; c < kDim / (kSide * kVector); ++c) {
        const float4 v = vector_at(&shared.v[key + j][(c * kSide + x) * kVector]);
#pragma unroll
        for (int i = 0; i < kRowsEach; ++i)
          add_product(mine.out[i][c],
                      j == 0   ? p[i].x
                      : j == 1 ? p[i].y
                      : j == 2 ? p[i].z
                               : p[i].w,
                      v);
      }
  }
}

// Two blocks per multiprocessor if its shared memory (228 KiB on Hopper) holds them, so that one
// loads while the other computes. A thread then has 128 registers instead of 255.
template <int kRows, int kKeys, int kDim>
[[maybe_unused]] constexpr int kBlocks = sizeof(Storage<kRows, kKeys, kDim>) <= 112 * 1024 ? 2 : 1;

template <int kRows, int kKeys, int kDim>  // head_dim and value_dim() are at most kDim
__global__ __launch_bounds__(kThreads,
                             kBlocks<kRows, kKeys, kDim>) void register_tiles(ForwardStep step) {
  using Shared = Storage<kRows, kKeys, kDim>;
  using Mine = ThreadRows<kRows, kDim>;
  Shared& shared = shared_memory<Shared>();
  const StepShape& shape = step.shape;
  const int d = shape.head_dim, d_v = shape.value_dim();
  const int y = threadIdx.x / kSide, x = threadIdx.x % kSide;
  const int head = blockIdx.y, batch = blockIdx.z;
  const std::int64_t first_query = row_index(shape, batch, head, 0);
  const std::int64_t first_key = key_index(shape, batch, head, 0);
  const float* const k = static_cast<const float*>(step.k) + first_key * d;
  const float* const v = static_cast<const float*>(step.v) + first_key * d_v;
  const RowTile tile = RowTile::at(blockIdx.x, kRows, shape.rows_q, step.allowed_keys);

  load_rows<kDim, kThreads>(shared.q, static_cast<const float*>(step.q) + first_query * d,
                            tile.first, {tile.first, tile.first + tile.rows}, d);
  Mine mine;
#pragma unroll
  for (int i = 0; i < Mine::kRowsEach; ++i) {
    const int row = y + kSide * i;
    const std::int64_t query = first_query + tile.first + row;
    const bool carried = row < tile.rows && !step.first;
    mine.row_max[i] = carried ? carried_row(step, query).row_max : kNoKeys;
    mine.row_sum[i] = 0;
#pragma unroll
    for (int c = 0; c < Mine::kVectors; ++c)
      mine.out[i][c] = carried ? load_vector(step.out + query * d_v, (c * kSide + x) * kVector, d_v)
                               : make_float4(0, 0, 0, 0);
  }

  for (int t = tile.first_visitor(kKeys); t < tile.last_visitor(kKeys); ++t) {
    const int key0 = t * kKeys;
    __syncthreads();  // all threads are done with the last tile
    load_rows<kDim, kThreads>(shared.k, k, key0, tile.needed, d);
    load_rows<kDim, kThreads>(shared.v, v, key0, tile.needed, d_v);
    __syncthreads();  // the tile and Q are complete
    if (tile.is_full(key0, key0 + kKeys))
      attend<false>(shared, step, tile.first, key0, mine);
    else
      attend<true>(shared, step, tile.first, key0, mine);
  }

#pragma unroll
  for (int i = 0; i < Mine::kRowsEach; ++i) {
    const int row = y + kSide * i;
    const float step_sum = sum_over_lanes<kSide>(mine.row_sum[i]);
    const std::int64_t query = first_query + tile.first + row;
    EndedRow ended{};
    if (row < tile.rows) {
      ended = ended_row(step, head, carried_row(step, query), mine.row_max[i], step_sum);
#pragma unroll
      for (int c = 0; c < Mine::kVectors; ++c) {
        const float4 out = mine.out[i][c];
        store_vector(step.out + query * d_v, (c * kSide + x) * kVector, d_v,
                     make_float4(stored_out(step, out.x, ended), stored_out(step, out.y, ended),
                                 stored_out(step, out.z, ended), stored_out(step, out.w, ended)));
      }
    }
    __syncwarp();  // all lanes have read the state
    if (row < tile.rows && x == 0) store_row(step, query, ended);
  }

  if (threadIdx.x < 32)
    count_visits(step.counters, tile, head + batch == 0 ? step.allowed_keys : nullptr, kKeys,
                 shape.rows_k);
}

// Shared memory at head_dim 64, 128, 256 in KiB: 46, 78, 142; 21, 37, 69.
constexpr TileShape kTiles[] = {{64, 32}, {32, 16}};

// Call f(rows, keys, dim) with the sizes of the instance, as integral constants.
template <class F>
void visit_instance(HeadDims dims, int tile, F&& f) {
  visit_tile<std::size(kTiles)>(tile, [&](auto number) {
    visit_head_dim(dims.wider(), [&](auto dim) {
      f(std::integral_constant<int, kTiles[number()].rows>{},
        std::integral_constant<int, kTiles[number()].keys>{}, dim);
    });
  });
}

std::size_t shared_bytes(HeadDims dims, int tile) {
  std::size_t bytes = 0;
  visit_instance(dims, tile, [&](auto rows, auto keys, auto dim) {
    bytes = sizeof(Storage<rows(), keys(), dim()>);
  });
  return bytes;
}

void launch_step(const ForwardStep& step, DType, int tile, cudaStream_t stream) {
  const StepShape& shape = step.shape;
  visit_instance(shape, tile, [&](auto rows, auto keys, auto dim) {
    const dim3 grid(tiles_for(shape.rows_q, rows()), shape.heads, shape.batch);
    launch(register_tiles<rows(), keys(), dim()>,
           {grid, kThreads, sizeof(Storage<rows(), keys(), dim()>)}, stream, step);
  });
}

}  // namespace

constinit const Kernel register_tiles_kernel{
    .number = 4,
    .name = "register_tiles",
    .idea = "a rectangle of S and of O in each thread's registers, four floats a load",
    .tiles = kTiles,
    .shared_bytes = shared_bytes,
    .launch_forward = launch_step};

}  // namespace ringscope::cuda

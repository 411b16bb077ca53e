// Step 05: tensor cores (sm_80 and later). Q, K and V are bf16 or f16, and both products of a tile
// consist of mma.sync instructions. Each does 2048 multiply-adds for a warp, where an instruction
// of step 04 does 64. Everything else keeps the tensor cores fed:
//
//   - S = Q K^T, softmax and O += P V happen in registers. A warp owns whole rows, so four lanes
//     find a row's maximum. P becomes an operand where it is, because accumulators and operands
//     have the same layout (mma_layout.h).
//   - ldmatrix loads operands from shared memory, four registers per lane at once. The swizzle
//     (mma_layout.h) avoids bank conflicts, which would make it up to 8 times slower.
//   - cp.async brings the next K and V tile during this one, bypassing the registers. With two
//     alternating buffers one barrier per tile is enough: a thread that passes it knows that the
//     tile has arrived, and that nobody reads the buffer which the next copy overwrites.
//   - A warp has 32 rows. Each load of K or V serves its two bands of 16, so shared memory, with
//     its 128 bytes per clock, is no longer slower than the tensor cores.
//   - Registers hold S, O and often Q for the whole loop, which leaves few. So row numbers and
//     addresses are computed where they are needed (ptx/registers.h), and the table of intervals
//     is read only where there is something to mask.
//
// m = row_max, l = row_sum, S = scores, P = exp(S - m) (replaces S), O = out.
//
// Units: t = s * exponent_scale with exponent_scale = |softmax_scale| log2(e), so exp is one exp2
// and subtracting m is part of a multiply-add. A negative softmax_scale negates Q, which is exact.
// m is kept in units of t, and in the state in natural units.
//
// Blocks start with the longest rows. Intervals of keys only move on from row to row, so the last
// row tile has the most keys wherever intervals begin together (causal masks on any partition), and
// short tiles fill the end of the launch. The reversal harms no other mask. All heads of a row tile
// come before the next row tile.
//
// V rows that no row of a tile may attend are zeros in shared memory. Within a tile that is needed
// in part, a forbidden pair has P = 0, so a NaN in V reaches all rows of the warp that meets it.
#include <algorithm>

#include "cuda/base/launch.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/kernels/mma_tile.h"
#include "cuda/kernels/row_state.h"
#include "cuda/ptx/registers.h"

namespace ringscope::cuda {
namespace {

// One compiled instance.
template <class Element_, int kHeadDim_>
struct Instance {
  using Element = Element_;
  static constexpr int kHeadDim = kHeadDim_, kRows = 128, kKeys = 64;
  static constexpr int kBands = 2;  // a warp's rows, by 16
  static constexpr int kThreads = 32 * kRows / (kMmaRows * kBands);
  // O and S take kHeadDim + kKeys registers. Q stays in registers, too, where they have room; else
  // every tile loads it again.
  static constexpr bool kKeepQueries = kHeadDim == 64;
  static constexpr int kBlocks = 2;  // on a multiprocessor, whose registers allow no more
};

template <class I>
struct alignas(128) Storage {
  typename I::Element q[I::kRows * I::kHeadDim];
  typename I::Element k[2][I::kKeys * I::kHeadDim];
  typename I::Element v[2][I::kKeys * I::kHeadDim];
};

// A warp's registers. Value i of an accumulator belongs to row h = i / 2 of the two rows that a
// lane has in a band.
template <class I>
struct WarpRows {
  std::uint32_t q[I::kBands][I::kKeepQueries ? I::kHeadDim / kMmaDepth : 1][4];
  float out[I::kBands][I::kHeadDim / kMmaColumns][4];
  float scores[I::kBands][I::kKeys / kMmaColumns][4];
  float row_max[I::kBands][2];  // in base 2
  float row_sum[I::kBands][2];  // this step's, of this lane's columns
};

// Return what a row may attend. Rows past the tensor's end compute on zeros and are not stored.
__device__ __forceinline__ RowInterval allowed_keys(const ForwardStep& step, int row) {
  return row < step.shape.rows_q ? step.allowed_keys[row] : RowInterval{0, 0};
}

// Return a thread's row h of a band, counted from the block's first row.
template <class I>
__device__ __forceinline__ int row_of(int thread, int band, int h) {
  return (thread / 32 * I::kBands + band) * kMmaRows + mma::c_row(thread % 32, 2 * h);
}

template <class I>
__device__ __forceinline__ void load_state(const ForwardStep& step, std::int64_t first_query,
                                           int first_row, WarpRows<I>& rows) {
  const int thread = ptx::thread_index(), lane = thread % 32;
#pragma unroll
  for (int band = 0; band < I::kBands; ++band)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = first_row + row_of<I>(thread, band, h);
      const bool carried = row < step.shape.rows_q && !step.first;
      rows.row_max[band][h] = carried ? step.row_max[first_query + row] * kLog2e : kNoKeys;
      rows.row_sum[band][h] = 0;
      const float* out = step.out + (first_query + row) * I::kHeadDim + mma::c_column(lane, 0);
#pragma unroll
      for (int n = 0; n < I::kHeadDim / kMmaColumns; ++n) {
        const float2 pair =
            carried ? *reinterpret_cast<const float2*>(out + n * kMmaColumns) : make_float2(0, 0);
        rows.out[band][n][2 * h] = pair.x;
        rows.out[band][n][2 * h + 1] = pair.y;
      }
    }
}

// Compute S = Q K^T. `q` is the warp's first row.
template <class I>
__device__ __forceinline__ void compute_scores(const typename I::Element* q,
                                               const typename I::Element* k, int lane,
                                               WarpRows<I>& rows) {
  using Element = typename I::Element;
#pragma unroll
  for (int band = 0; band < I::kBands; ++band)
#pragma unroll
    for (int n = 0; n < I::kKeys / kMmaColumns; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) rows.scores[band][n][i] = 0;
#pragma unroll
  for (int x = 0; x < I::kHeadDim; x += kMmaDepth) {
    const int kept = I::kKeepQueries ? x / kMmaDepth : 0;
    if constexpr (!I::kKeepQueries)
#pragma unroll
      for (int band = 0; band < I::kBands; ++band)
        load_a<I::kHeadDim>(rows.q[band][0], q, band * kMmaRows, x, lane);
#pragma unroll
    for (int key = 0; key < I::kKeys; key += 2 * kMmaColumns) {
      std::uint32_t b[4];
      load_b<I::kHeadDim>(b, k, key, x, lane);
      const int n = key / kMmaColumns;
#pragma unroll
      for (int band = 0; band < I::kBands; ++band) {
        ptx::mma_m16n8k16<Element>(rows.scores[band][n], rows.q[band][kept], b[0], b[1]);
        ptx::mma_m16n8k16<Element>(rows.scores[band][n + 1], rows.q[band][kept], b[2], b[3]);
      }
    }
  }
}

// Set scores that are not allowed to -inf. `first_row` is the block's, `key0` the tile's.
template <class I>
__device__ __forceinline__ void mask(const ForwardStep& step, int first_row, int key0,
                                     WarpRows<I>& rows) {
  const int thread = ptx::thread_index(), lane = thread % 32;
#pragma unroll
  for (int band = 0; band < I::kBands; ++band)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const RowInterval allowed = allowed_keys(step, first_row + row_of<I>(thread, band, h));
      const int origin = key0 + mma::c_column(lane, 0);
      const int first = allowed.first - origin, last = allowed.last - origin;
#pragma unroll
      for (int n = 0; n < I::kKeys / kMmaColumns; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int column = n * kMmaColumns + i;
          if (column < first || column >= last) rows.scores[band][n][2 * h + i] = kNoKeys;
        }
    }
}

// Turn S into P = exp2(t - m), and update m, l and O.
template <class I>
__device__ __forceinline__ void softmax(float exponent_scale, WarpRows<I>& rows) {
#pragma unroll
  for (int band = 0; band < I::kBands; ++band)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float largest = kNoKeys;
#pragma unroll
      for (int n = 0; n < I::kKeys / kMmaColumns; ++n)
        largest =
            fmaxf(largest, fmaxf(rows.scores[band][n][2 * h], rows.scores[band][n][2 * h + 1]));
      const float before = rows.row_max[band][h];
      const float row_max = fmaxf(before, max_over_lanes<4>(largest) * exponent_scale);
      const float unit = exponent_unit(row_max);
      const float factor = ptx::exp2_approx(before - unit);
      float sum = rows.row_sum[band][h] * factor;
#pragma unroll
      for (int n = 0; n < I::kKeys / kMmaColumns; ++n)
#pragma unroll
        for (int i = 2 * h; i < 2 * h + 2; ++i) {
          float& score = rows.scores[band][n][i];
          score = ptx::exp2_approx(fmaf(score, exponent_scale, -unit));
          sum += score;
        }
#pragma unroll
      for (int n = 0; n < I::kHeadDim / kMmaColumns; ++n) {
        rows.out[band][n][2 * h] *= factor;
        rows.out[band][n][2 * h + 1] *= factor;
      }
      rows.row_max[band][h] = row_max;
      rows.row_sum[band][h] = sum;
    }
}

template <class I>
__device__ __forceinline__ void store_state(const ForwardStep& step, int batch, int first_row,
                                            const WarpRows<I>& rows) {
  const std::int64_t first_query = row_index(step.shape, batch, ptx::block_index(), 0);
  const int thread = ptx::thread_index(), lane = thread % 32;
#pragma unroll
  for (int band = 0; band < I::kBands; ++band)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float step_sum = sum_over_lanes<4>(rows.row_sum[band][h]);
      const int row = first_row + row_of<I>(thread, band, h);
      const bool exists = row < step.shape.rows_q;
      const std::int64_t query = first_query + row;
      const CarriedRow before = exists ? carried_row(step, query) : CarriedRow{};
      __syncwarp();  // all four lanes of the row have read the state
      if (!exists) continue;
      const float row_max = natural_max(before, rows.row_max[band][h]);
      const double row_sum = combined_row_sum(before, row_max, step_sum);
      if (lane % 4 == 0) store_row(step, query, row_max, row_sum);
      const float factor = out_factor(step, row_sum);
      float* out = step.out + query * I::kHeadDim + mma::c_column(lane, 0);
#pragma unroll
      for (int n = 0; n < I::kHeadDim / kMmaColumns; ++n)
        *reinterpret_cast<float2*>(out + n * kMmaColumns) =
            make_float2(rows.out[band][n][2 * h] * factor, rows.out[band][n][2 * h + 1] * factor);
    }
}

// Negate all of Q in shared memory.
template <class I>
__device__ __forceinline__ void negate(typename I::Element* q) {
  for (int i = threadIdx.x; i < I::kRows * I::kHeadDim; i += I::kThreads) q[i].bits ^= 0x8000u;
}

// Grid: heads x batch x row tiles, from end_tile - 1 down. Blocks start in this order, heads fastest.
template <class I>
__global__ void __launch_bounds__(I::kThreads, I::kBlocks)
    tensor_cores(const ForwardStep step, const float exponent_scale, const int end_tile) {
  using Element = typename I::Element;
  Storage<I>& shared = shared_memory<Storage<I>>();
  const StepShape& shape = step.shape;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int head = blockIdx.x, batch = blockIdx.y;
  const RowTile tile =
      RowTile::at(end_tile - 1 - blockIdx.z, I::kRows, shape.rows_q, step.allowed_keys);
  const int first_tile = tile.first_visitor(I::kKeys), last_tile = tile.last_visitor(I::kKeys);
  const std::int64_t first_query = row_index(shape, batch, head, 0);
  const std::int64_t first_key = key_index(shape, batch, head, 0);
  const Element* const q = static_cast<const Element*>(step.q) + first_query * I::kHeadDim;
  const Element* const k = static_cast<const Element*>(step.k) + first_key * I::kHeadDim;
  const Element* const v = static_cast<const Element*>(step.v) + first_key * I::kHeadDim;
  if (first_tile == last_tile && !step.first && !step.last) {  // nothing changes
    if (threadIdx.x == 0) add_tiles(step.counters, 0, 0, tiles_for(shape.rows_k, I::kKeys));
    return;
  }

  const auto copy_tile = [&](int t) {
    const int key0 = t * I::kKeys, stage = t % 2, thread = ptx::thread_index();
    copy_rows_async<I::kHeadDim, I::kKeys, I::kThreads>(shared.k[stage], k, key0, tile.needed.first,
                                                        tile.needed.last, thread);
    copy_rows_async<I::kHeadDim, I::kKeys, I::kThreads>(shared.v[stage], v, key0, tile.needed.first,
                                                        tile.needed.last, thread);
    ptx::cp_async_commit();
  };
  if (first_tile < last_tile) {
    copy_rows_async<I::kHeadDim, I::kRows, I::kThreads>(shared.q, q, tile.first, tile.first,
                                                        tile.first + tile.rows, threadIdx.x);
    ptx::cp_async_commit();
    copy_tile(first_tile);
  }

  WarpRows<I> rows;
  load_state<I>(step, first_query, tile.first, rows);

  const Element* const warp_q = shared.q + warp * I::kBands * kMmaRows * I::kHeadDim;
  if (first_tile < last_tile) {
    ptx::cp_async_wait<1>();
    __syncthreads();  // Q has arrived
    if (step.softmax_scale < 0) {
      negate<I>(shared.q);
      __syncthreads();
    }
    if constexpr (I::kKeepQueries)
#pragma unroll
      for (int band = 0; band < I::kBands; ++band)
#pragma unroll
        for (int x = 0; x < I::kHeadDim; x += kMmaDepth)
          load_a<I::kHeadDim>(rows.q[band][x / kMmaDepth], warp_q, band * kMmaRows, x, lane);
  }

  int tiles_full = 0, t = first_tile;
  for (; t < last_tile; ++t) {
    const int key0 = t * I::kKeys;
    ptx::cp_async_wait<0>();
    __syncthreads();  // this tile has arrived, and the other buffer is free
    if (t + 1 < last_tile) copy_tile(t + 1);

    compute_scores<I>(warp_q, shared.k[t % 2], lane, rows);
    const bool full = tile.is_full(key0, key0 + I::kKeys);
    if (!full) mask<I>(step, tile.first, key0, rows);
    softmax<I>(exponent_scale, rows);
    add_weighted_rows(rows.out, rows.scores, shared.v[t % 2], 0, lane);  // O += P V
    tiles_full += full;
  }

  store_state<I>(step, batch, tile.first, rows);
  if (batch == 0 && head == 0) {
    unsigned long long pairs = 0;
    if (threadIdx.x < I::kRows)
      pairs = overlap(allowed_keys(step, tile.first + threadIdx.x), first_tile * I::kKeys,
                      t * I::kKeys);
    add_pairs(step.counters, pairs);
  }
  if (threadIdx.x == 0)
    add_tiles(step.counters, tiles_full, t - first_tile - tiles_full,
              tiles_for(shape.rows_k, I::kKeys) - (t - first_tile));
}

// 48 KiB of shared memory at head_dim 64, 96 at 128.
constexpr TileShape kTiles[] = {{Instance<bf16, 64>::kRows, Instance<bf16, 64>::kKeys}};

std::size_t shared_bytes(int head_dim, int) {
  return head_dim == 64 ? sizeof(Storage<Instance<bf16, 64>>)
                        : sizeof(Storage<Instance<bf16, 128>>);
}

constexpr int kMaxGridZ = 65535;

void launch_step(const ForwardStep& step, DType dtype, int, cudaStream_t stream) {
  const StepShape& shape = step.shape;
  visit_half_instance(dtype, shape.head_dim, [&]<class Element>(Element, auto head_dim) {
    using I = Instance<Element, head_dim()>;
    // A folded index would cost registers that there are not.
    for (int end = tiles_for(shape.rows_q, I::kRows); end > 0; end -= kMaxGridZ) {
      const dim3 grid(shape.heads, shape.batch, std::min(end, kMaxGridZ));
      launch(tensor_cores<I>, {grid, I::kThreads, sizeof(Storage<I>)}, stream, step,
             exponent_scale_of(step.softmax_scale), end);
    }
  });
}

}  // namespace

constinit const Kernel tensor_cores_kernel{
    .number = 5,
    .name = "tensor_cores",
    .idea = "mma.sync products on swizzled tiles that cp.async brings",
    .limits = {.half = true},
    .tiles = kTiles,
    .shared_bytes = shared_bytes,
    .launch_forward = launch_step};

}  // namespace ringscope::cuda

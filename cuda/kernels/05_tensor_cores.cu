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
// forward_rows.h has a warp's registers and the softmax.
//
// Blocks start with the longest rows. Intervals of keys only move on from row to row, so the last
// row tile has the most keys wherever intervals begin together (causal masks on any partition), and
// short tiles fill the end of the launch. The reversal harms no other mask. All heads of a row tile
// come before the next row tile.
//
// V rows that no row of a tile may attend are zeros in shared memory. Within a tile that is needed
// in part, a forbidden pair has P = 0, so a NaN in V reaches all rows of the warp that meets it.
#include <algorithm>
#include <cstring>

#include "cuda/base/launch.h"
#include "cuda/kernels/forward_rows.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/kernels/mma_tile.h"
#include "cuda/ptx/registers.h"

namespace ringscope::cuda {
namespace {

// One compiled instance.
template <class Element_, int kHeadDim_, int kValueDim_>
struct Instance {
  using Element = Element_;
  static constexpr int kHeadDim = kHeadDim_, kValueDim = kValueDim_, kRows = 128;
  static constexpr int kKeys = kHeadDim == 192 ? 32 : 64;
  static constexpr int kBands = 2;  // a warp's rows, by 16
  static constexpr int kThreads = 32 * kRows / (kMmaRows * kBands);
  // O and S take kValueDim + kKeys registers. Q stays in registers, too, where they have room; else
  // every tile loads it again.
  static constexpr bool kKeepQueries = kHeadDim == 64;
  static constexpr int kBlocks = 2;  // on a multiprocessor, whose registers allow no more
  using Rows = ForwardRows<Element, kBands, kKeys, kValueDim, false>;
};

template <class I>
struct alignas(128) Storage {
  typename I::Element q[I::kRows * I::kHeadDim];
  typename I::Element k[2][I::kKeys * I::kHeadDim];
  typename I::Element v[2][I::kKeys * I::kValueDim];
};

// Negate all of Q in shared memory.
template <class I>
__device__ __forceinline__ void negate(typename I::Element* q) {
  for (int i = threadIdx.x; i < I::kRows * I::kHeadDim; i += I::kThreads) q[i].bits ^= 0x8000u;
}

// Attend all keys that a tile of rows needs.
template <class I>
__device__ __forceinline__ void attend(const ForwardStep& step, float exponent_scale,
                                       const RowTile& tile) {
  using Element = typename I::Element;
  Storage<I>& shared = shared_memory<Storage<I>>();
  const StepShape& shape = step.shape;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int head = blockIdx.x, batch = blockIdx.y;
  const int first_tile = tile.first_visitor(I::kKeys), last_tile = tile.last_visitor(I::kKeys);
  const std::int64_t first_key = key_index(shape, batch, head, 0);
  const Element* const q =
      static_cast<const Element*>(step.q) + row_index(shape, batch, head, 0) * I::kHeadDim;
  const Element* const k = static_cast<const Element*>(step.k) + first_key * I::kHeadDim;
  const Element* const v = static_cast<const Element*>(step.v) + first_key * I::kValueDim;
  if (first_tile == last_tile && !step.first && !step.last) return;  // nothing changes

  const auto buffer_of = [&](int t) { return (t - first_tile) % 2; };
  const auto copy_tile = [&](int t) {
    const int key0 = t * I::kKeys, buffer = buffer_of(t), thread = ptx::thread_index();
    copy_rows_async<I::kHeadDim, I::kKeys, I::kThreads>(
        shared.k[buffer], k, key0, tile.needed.first, tile.needed.last, thread);
    copy_rows_async<I::kValueDim, I::kKeys, I::kThreads>(
        shared.v[buffer], v, key0, tile.needed.first, tile.needed.last, thread);
    ptx::cp_async_commit();
  };
  if (first_tile < last_tile) {
    copy_rows_async<I::kHeadDim, I::kRows, I::kThreads>(shared.q, q, tile.first, tile.first,
                                                        tile.first + tile.rows, threadIdx.x);
    ptx::cp_async_commit();
    copy_tile(first_tile);
  }

  typename I::Rows rows;
  rows.begin(step, row_index(shape, batch, head, 0), tile.first, ptx::thread_index());

  // The warp's rows of Q as operands: kept, or loaded for every tile.
  const Element* const warp_q = shared.q + warp * I::kBands * kMmaRows * I::kHeadDim;
  const auto load_q = [&](std::uint32_t(&a)[I::kBands][4], int x) {
#pragma unroll
    for (int band = 0; band < I::kBands; ++band)
      load_a<I::kHeadDim>(a[band], warp_q, band * kMmaRows, x, lane);
  };
  std::uint32_t kept[I::kKeepQueries ? I::kHeadDim / kMmaDepth : 1][I::kBands][4];
  const auto q_at = [&](std::uint32_t(&a)[I::kBands][4], int x) {
    if constexpr (I::kKeepQueries)
      std::memcpy(a, kept[x / kMmaDepth], sizeof(a));
    else
      load_q(a, x);
  };
  if (first_tile < last_tile) {
    ptx::cp_async_wait<1>();
    __syncthreads();  // Q has arrived
    if (step.softmax_scale < 0) {
      negate<I>(shared.q);
      __syncthreads();
    }
    if constexpr (I::kKeepQueries)
#pragma unroll
      for (int x = 0; x < I::kHeadDim; x += kMmaDepth) load_q(kept[x / kMmaDepth], x);
  }

  for (int t = first_tile; t < last_tile; ++t) {
    const int key0 = t * I::kKeys;
    ptx::cp_async_wait<0>();
    __syncthreads();  // this tile has arrived, and the other buffer is free
    if (t + 1 < last_tile) copy_tile(t + 1);

    rows.s.set(0);
    add_row_product<Element, I::kHeadDim, I::kHeadDim / kMmaDepth>(rows.s, q_at,
                                                                   shared.k[buffer_of(t)], 0,
                                                                   lane);  // S = Q K^T
    if (!tile.is_full(key0, key0 + I::kKeys))
      rows.mask(step, key0, tile.first, ptx::thread_index());
    rows.softmax(exponent_scale);  // P = exp2(S - m)
    rows.rescale_output();
    add_weighted_rows(rows.o, rows.s, shared.v[buffer_of(t)], lane);  // O += P V
  }
  rows.end(step, ptx::block_index(), row_index(shape, batch, ptx::block_index(), 0), tile.first,
           ptx::thread_index());
}

// Grid: heads x batch x row tiles, from end_tile - 1 down. Blocks start in this order, heads fastest.
template <class I>
__global__ void __launch_bounds__(I::kThreads, I::kBlocks)
    tensor_cores(const ForwardStep step, const float exponent_scale, const int end_tile) {
  const auto tile = [&] {
    return RowTile::at(end_tile - 1 - blockIdx.z, I::kRows, step.shape.rows_q, step.allowed_keys);
  };
  attend<I>(step, exponent_scale, tile());
  if (ptx::thread_index() < 32)
    count_visits(step.counters, tile(), blockIdx.x + blockIdx.y == 0 ? step.allowed_keys : nullptr,
                 I::kKeys, step.shape.rows_k);
}

// Shared memory at head_dim 64, 128 and 192, in KiB: 48, 96, 88.
constexpr TileShape kTiles[] = {{.rows = 128, .keys = 64, .most_head_dim = 128},
                                {.rows = 128, .keys = 32, .least_head_dim = 192}};

// Call f(Instance{}) with the instance.
template <class F>
void visit_instance(DType dtype, HeadDims dims, F&& f) {
  visit_half_instance(dtype, dims, [&]<class Element>(Element, auto keys, auto values) {
    f(Instance<Element, keys(), values()>{});
  });
}

std::size_t shared_bytes(HeadDims dims, int) {
  std::size_t bytes = 0;
  visit_instance(DType::bf16, dims, [&]<class I>(I) { bytes = sizeof(Storage<I>); });
  return bytes;
}

constexpr int kMaxGridZ = 65535;

void launch_step(const ForwardStep& step, DType dtype, int, cudaStream_t stream) {
  const StepShape& shape = step.shape;
  visit_instance(dtype, shape, [&]<class I>(I) {
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

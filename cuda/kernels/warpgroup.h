// The products of the Hopper kernels (06, 07, 11): what a warpgroup computes on a tile, with
// accumulators spread over its 128 threads as tile.h and hopper_layout.h say.
//
// There are two: of rows with rows (start_row_product), S = Q K^T, and of weights, which are rounded
// accumulators, with the columns of a tile (start_column_product), O += P V. Both run while the
// threads go on; cuda/ptx/wgmma.h says what may be touched meanwhile.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "cuda/kernels/hopper_layout.h"
#include "cuda/kernels/tile.h"
#include "cuda/ptx/barrier.h"
#include "cuda/ptx/wgmma.h"

namespace ringscope::cuda {

// The warpgroups of a block: one produces, which takes few registers, and two consume 64 rows each.
// Together they have at most 65536 registers: 128 (24 + 2 * 240).
struct WarpgroupRoles {
  static constexpr int kConsumers = 2;
  static constexpr int kThreads = (kConsumers + 1) * kWarpgroupThreads;
  static constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;
};

// Return the thread's warpgroup, shuffled, so that the compiler knows it is uniform. 0 produces.
__device__ __forceinline__ int warpgroup_index() {
  return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x), 0) / kWarpgroupThreads;
}

// A tile in shared memory as the copy engine leaves it and WGMMA reads it (hopper_layout.h). Its type
// says its size, so a product of tiles that don't fit each other doesn't compile.
template <class Element, int kRows_, int kColumns>
struct alignas(kSwizzleBytes) SharedTile {
  static constexpr int kRows = kRows_;
  static_assert(kRows * kColumns * sizeof(Element) % kSwizzleBytes == 0);

  Element values[kRows * kColumns];
};

// Start d = A B^T. A is 64 rows of an OfA, given by their descriptor.
template <class OfA, class Element, int kRowsB, int kColumns>
__device__ __forceinline__ void start_row_product(Tile<1, kRowsB>& d, std::uint64_t a,
                                                  const SharedTile<Element, kRowsB, kColumns>& b) {
  static_assert(std::is_same_v<OfA, SharedTile<Element, OfA::kRows, kColumns>>);
  const std::uint64_t b_descriptor = rows_descriptor(ptx::shared_address(b.values));
#pragma unroll
  for (int column = 0; column < kColumns; column += kProductDepth)
    ptx::wgmma_shared<Element, kRowsB>(d.values[0], advance(a, piece_offset(column, OfA::kRows)),
                                       advance(b_descriptor, piece_offset(column, kRowsB)),
                                       column != 0);
  ptx::wgmma_commit();
}

// Start d += weights B: 64 rows of weights for the rows of B, which is read down its columns.
template <class Element, int kRows, int kHeadDim>
__device__ __forceinline__ void start_column_product(
    Tile<1, kHeadDim>& d, const Weights<kRows>& weights,
    const SharedTile<Element, kRows, kHeadDim>& b) {
  const std::uint64_t descriptor =
      columns_descriptor(ptx::shared_address(b.values), kRows * kRowBytes);
#pragma unroll
  for (int row = 0; row < kRows; row += kProductDepth)
    ptx::wgmma_registers<Element, kHeadDim, ptx::Major::mn>(
        d.values[0], weights[row / kProductDepth], advance(descriptor, row * kRowBytes), true);
  ptx::wgmma_commit();
}

// Call it after a wait, for each tile whose products have ended and that is read or changed from then
// on.
template <int kColumns>
__device__ __forceinline__ void finish(Tile<1, kColumns>& d) {
  ptx::wgmma_done(d.values[0]);
}

// Round a tile to weights. No product that reads them may be in flight.
template <class Element, int kColumns>
__device__ __forceinline__ void pack_weights(Weights<kColumns>& weights,
                                             const Tile<1, kColumns>& tile) {
#pragma unroll
  for (int n = 0; n < kColumns; n += kProductDepth)
    round_weights<Element>(weights[n / kProductDepth], tile, 0, n);
}

}  // namespace ringscope::cuda

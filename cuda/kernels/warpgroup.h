// The mathematics of the Hopper kernels (06, 07, 11): what a warpgroup computes on a tile,
// with accumulators spread over its 128 threads as hopper_layout.h says.
//
//   forward    S = Q K^T                         O += P V
//   backward   S = own[0] visit[0]^T  (and dP)   gradient += dS visit[0]  (and P visit[1])
//
// So there are two products: of rows with rows (start_row_product) and of weights, which are
// rounded accumulators, with the columns of the same tile (start_column_product). Both run while
// the threads go on; cuda/ptx/wgmma.h says what may be touched meanwhile.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/base/check.h"
#include "cuda/kernels/hopper_layout.h"
#include "cuda/kernels/ring_step.h"
#include "cuda/ptx/barrier.h"
#include "cuda/ptx/numbers.h"
#include "cuda/ptx/wgmma.h"

namespace ringscope::cuda {

// The warpgroups of a block: one produces, which takes few registers, and two consume 64 rows each.
// Together they have at most 65536 registers: 128 (24 + 2 * 240).
struct WarpgroupRoles {
  static constexpr int kConsumers = 2;
  static constexpr int kThreads = (kConsumers + 1) * kWarpgroupThreads;
  static constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;
};

// Let the kernels of the source file that includes this leave records under the name `kernel`. Call
// it before a launch; it acts once per device. Throw CudaError.
[[maybe_unused]] static void arm_hang_record([[maybe_unused]] const char* kernel) {
#ifndef RINGSCOPE_MODEL
  static bool armed[64];  // a rank's GPU is used by one thread, and arming twice does no harm
  int device = 0;
  RINGSCOPE_CUDA(cudaGetDevice(&device));
  if (device >= 64 || armed[device]) return;
  HangRecord* const record = hang_record_of(kernel);
  RINGSCOPE_CUDA(cudaMemcpyToSymbol(ptx::hang_record, &record, sizeof(record)));
  armed[device] = true;
#endif
}

// Return the thread's warpgroup, shuffled, so that the compiler knows it is uniform. 0 produces.
__device__ __forceinline__ int warpgroup_index() {
  return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x), 0) / kWarpgroupThreads;
}

// Start d = A B^T over kHeadDim columns. A is 64 rows of a tile of kRowsA rows, given by their
// descriptor; B is a tile of kRowsB rows.
template <int kHeadDim, int kRowsA, int kRowsB, class Element>
__device__ __forceinline__ void start_row_product(float (&d)[kRowsB / 2], std::uint64_t a,
                                                  const Element* b) {
  const std::uint64_t b_descriptor = rows_descriptor(ptx::shared_address(b));
#pragma unroll
  for (int column = 0; column < kHeadDim; column += kProductDepth)
    ptx::wgmma_shared<Element, kRowsB>(d, advance(a, piece_offset(column, kRowsA)),
                                       advance(b_descriptor, piece_offset(column, kRowsB)),
                                       column != 0);
  ptx::wgmma_commit();
}

// Start d += weights B: 64 rows of weights for the kRows rows of the tile B, which is read down its
// columns.
template <int kHeadDim, int kRows, class Element>
__device__ __forceinline__ void start_column_product(
    float (&d)[kHeadDim / 2], const std::uint32_t (&weights)[kRows / kProductDepth][4],
    const Element* b) {
  const std::uint64_t descriptor = columns_descriptor(ptx::shared_address(b), kRows * kRowBytes);
#pragma unroll
  for (int row = 0; row < kRows; row += kProductDepth)
    ptx::wgmma_registers<Element, kHeadDim, ptx::Major::mn>(
        d, weights[row / kProductDepth], advance(descriptor, row * kRowBytes), true);
  ptx::wgmma_commit();
}

// Round accumulators to weights, in place of the operand. No product that reads the operand may be
// in flight.
template <class Element, int kCount>
__device__ __forceinline__ void pack_weights(std::uint32_t (&weights)[kCount / 8][4],
                                             const float (&d)[kCount]) {
#pragma unroll
  for (int k = 0; k < kCount / 8; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      weights[k][i] = ptx::pack<Element>(d[8 * k + 2 * i], d[8 * k + 2 * i + 1]);
}

// Set the accumulators of the thread's row h (0 or 1) to `value` in columns outside of `allowed`,
// whose rows count from those of column 0.
template <int kCount>
__device__ __forceinline__ void mask_columns(float (&d)[kCount], int thread, int h,
                                             const RowInterval& allowed, float value) {
  const int shift = accumulator_column(thread, 0);
#pragma unroll
  for (int i = 2 * h; i < kCount; i += 4) {
#pragma unroll
    for (int j = i; j < i + 2; ++j) {
      const int column = accumulator_column(0, j);
      if (column < allowed.first - shift || column >= allowed.last - shift) d[j] = value;
    }
  }
}

}  // namespace ringscope::cuda

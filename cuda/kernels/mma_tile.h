// Loads operands of mma.sync from tiles in shared memory.
//
// One ldmatrix.x4 loads a 16 x 16 square of a tile as four 8 x 8 squares: one A, or the B of two
// neighbouring groups of 8 columns (B needs k along the registers):
//
//   operand                tile in memory    squares in order    transposed
//   A                      [row][k]          down, then right    no           load_a
//   B of 16 columns        [column][k]       right, then down    no           load_b
//   B of 16 columns        [k][column]       down, then right    yes          load_b_transposed
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/kernels/mma_layout.h"
#include "cuda/ptx/tensor_core.h"

namespace ringscope::cuda {

// Load the fragments of the square at (row, column) of a swizzled tile, multiples of 16 that refer
// to the tile as it lies in memory. All lanes of the warp call it together.
template <int Columns, class Element>
__device__ __forceinline__ void load_a(std::uint32_t (&a)[4], const Element* tile, int row,
                                       int column, int lane) {
  ptx::ldmatrix_x4(a, tile + mma::square_place<Columns>(mma::down_then_right(lane), row, column));
}
// b[0], b[1] are the B of the product's first 8 columns, b[2], b[3] that of the next 8.
template <int Columns, class Element>
__device__ __forceinline__ void load_b(std::uint32_t (&b)[4], const Element* tile, int row,
                                       int column, int lane) {
  ptx::ldmatrix_x4(b, tile + mma::square_place<Columns>(mma::right_then_down(lane), row, column));
}
template <int Columns, class Element>
__device__ __forceinline__ void load_b_transposed(std::uint32_t (&b)[4], const Element* tile,
                                                  int row, int column, int lane) {
  ptx::ldmatrix_x4_trans(
      b, tile + mma::square_place<Columns>(mma::down_then_right(lane), row, column));
}

// Pack two neighbouring accumulators, 16 x 16 values, as the A of a product over their columns.
template <class Element>
__device__ __forceinline__ void accumulators_to_a(std::uint32_t (&a)[4], const float (&left)[4],
                                                  const float (&right)[4]) {
  a[0] = ptx::pack<Element>(left[0], left[1]);
  a[1] = ptx::pack<Element>(left[2], left[3]);
  a[2] = ptx::pack<Element>(right[0], right[1]);
  a[3] = ptx::pack<Element>(right[2], right[3]);
}

// Compute sum += weights R for rows [first_row, first_row + Rows) of a swizzled tile: in the
// forward pass O += P V, in the backward pass gradients += P, dS times the visitors. A warp has
// kBands bands of 16 rows of weights, which are accumulators, and of sums.
template <int kBands, int kGroups, int kColumnGroups, class Element>
__device__ __forceinline__ void add_weighted_rows(float (&sum)[kBands][kColumnGroups][4],
                                                  const float (&weights)[kBands][kGroups][4],
                                                  const Element* tile, int first_row, int lane) {
#pragma unroll
  for (int n = 0; n < kGroups; n += 2) {
    std::uint32_t a[kBands][4];
#pragma unroll
    for (int band = 0; band < kBands; ++band)
      accumulators_to_a<Element>(a[band], weights[band][n], weights[band][n + 1]);
#pragma unroll
    for (int x = 0; x < kColumnGroups; x += 2) {
      std::uint32_t b[4];
      load_b_transposed<kColumnGroups * kMmaColumns>(b, tile, first_row + n * kMmaColumns,
                                                     x * kMmaColumns, lane);
#pragma unroll
      for (int band = 0; band < kBands; ++band) {
        ptx::mma_m16n8k16<Element>(sum[band][x], a[band], b[0], b[1]);
        ptx::mma_m16n8k16<Element>(sum[band][x + 1], a[band], b[2], b[3]);
      }
    }
  }
}

// Start the copy of rows [row, row + Rows) of a matrix [.., Columns] in global memory to a swizzled
// tile. All `Threads` threads of a block call it together. Rows become zero outside
// [valid_first, valid_last). The caller commits and waits.
template <int Columns, int Rows, int Threads, class Element>
__device__ __forceinline__ void copy_rows_async(Element* tile, const Element* matrix, int row,
                                                int valid_first, int valid_last, int thread) {
  using Place = SwizzledRows<Columns>;
  static_assert(Threads % Place::kChunks == 0);
  constexpr int kRowsAtATime = Threads / Place::kChunks;
  static_assert(Rows % kRowsAtATime == 0 && kRowsAtATime % 8 == 0);
  const int my_row = thread / Place::kChunks, chunk = thread % Place::kChunks;
  const Element* const from = matrix + std::int64_t{row + my_row} * Columns + chunk * kChunkValues;
  const auto valid_rows = static_cast<unsigned>(valid_last - valid_first);
#pragma unroll
  for (int r = 0; r < Rows; r += kRowsAtATime)
    ptx::cp_async_16(tile + Place::chunk_place(my_row, chunk) * kChunkValues + r * Columns,
                     from + r * Columns,
                     static_cast<unsigned>(row + my_row + r - valid_first) < valid_rows);
}

}  // namespace ringscope::cuda

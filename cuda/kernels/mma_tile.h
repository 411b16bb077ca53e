// Products of one warp by mma.sync, whose operands come from tiles in shared memory.
//
// One ldmatrix.x4 loads a 16 x 16 square of a tile as four 8 x 8 squares: one A, or the B of two
// neighbouring groups of 8 columns (B needs k along the registers):
//
//   operand                tile in memory    squares in order    transposed
//   A                      [row][k]          down, then right    no           load_a
//   A                      [k][row]          right, then down    yes          load_a_transposed
//   B of 16 columns        [column][k]       right, then down    no           load_b
//   B of 16 columns        [k][column]       down, then right    yes          load_b_transposed
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/kernels/mma_layout.h"
#include "cuda/kernels/tile.h"
#include "cuda/ptx/tensor_core.h"

namespace ringscope::cuda {

// Load the fragments of the square at (row, column) of a swizzled tile, multiples of 16 that refer
// to the tile as it lies in memory. All lanes of the warp call it together.
template <int Columns, class Element>
__device__ __forceinline__ void load_a(std::uint32_t (&a)[4], const Element* tile, int row,
                                       int column, int lane) {
  ptx::ldmatrix_x4(a, tile + mma::square_place<Columns>(mma::down_then_right(lane), row, column));
}
template <int Columns, class Element>
__device__ __forceinline__ void load_a_transposed(std::uint32_t (&a)[4], const Element* tile,
                                                  int row, int column, int lane) {
  ptx::ldmatrix_x4_trans(
      a, tile + mma::square_place<Columns>(mma::right_then_down(lane), row, column));
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

// Compute sum += A B^T over kColumns columns: in the forward pass S = Q K^T, in the backward pass S and
// dP. a_at(a, column) loads the A of 16 columns, for all bands; B is rows from `row` on of a swizzled
// tile. Columns are taken 16 * kUnrolled at a time.
template <class Element, int kColumns, int kUnrolled, class T, class A>
__device__ __forceinline__ void add_row_product(T& sum, const A& a_at, const Element* tile, int row,
                                                int lane) {
#pragma unroll kUnrolled
  for (int x = 0; x < kColumns; x += kMmaDepth) {
    std::uint32_t a[T::kBands][4];
    a_at(a, x);
#pragma unroll
    for (int n = 0; n < T::kColumns; n += 2 * kMmaColumns) {
      std::uint32_t b[4];
      load_b<kColumns>(b, tile, row + n, x, lane);
#pragma unroll
      for (int band = 0; band < T::kBands; ++band) {
        ptx::mma_m16n8k16<Element>(sum.values[band] + n / 2, a[band], b[0], b[1]);
        ptx::mma_m16n8k16<Element>(sum.values[band] + n / 2 + 4, a[band], b[2], b[3]);
      }
    }
  }
}

// Compute sum += A R for kRows rows of a swizzled tile of kTileColumns columns, of which the sum has
// those from `column` on. a_at(a, row) loads the A of 16 rows, for all bands.
template <class Element, int kTileColumns, int kRows, class T, class A>
__device__ __forceinline__ void add_column_product(T& sum, const A& a_at, const Element* tile,
                                                   int column, int lane) {
#pragma unroll
  for (int n = 0; n < kRows; n += kMmaDepth) {
    std::uint32_t a[T::kBands][4];
    a_at(a, n);
#pragma unroll
    for (int x = 0; x < T::kColumns; x += 2 * kMmaColumns) {
      std::uint32_t b[4];
      load_b_transposed<kTileColumns>(b, tile, n, column + x, lane);
#pragma unroll
      for (int band = 0; band < T::kBands; ++band) {
        ptx::mma_m16n8k16<Element>(sum.values[band] + x / 2, a[band], b[0], b[1]);
        ptx::mma_m16n8k16<Element>(sum.values[band] + x / 2 + 4, a[band], b[2], b[3]);
      }
    }
  }
}

// Compute sum += weights R for the rows of a swizzled tile: in the forward pass O += P V, in the
// backward pass gradients += P, dS times the visitors.
template <class Element, class T, class W>
__device__ __forceinline__ void add_weighted_rows(T& sum, const W& weights, const Element* tile,
                                                  int lane) {
  const auto weights_at = [&](std::uint32_t(&a)[T::kBands][4], int n) {
#pragma unroll
    for (int band = 0; band < T::kBands; ++band) round_weights<Element>(a[band], weights, band, n);
  };
  add_column_product<Element, T::kColumns, W::kColumns>(sum, weights_at, tile, 0, lane);
}

// Start the copy of rows [row, row + Rows) of a matrix [.., Columns] in global memory to a swizzled
// tile. All `Threads` threads of a block call it together. Rows become zero outside
// [valid_first, valid_last). The caller commits and waits.
template <int Columns, int Rows, int Threads, class Element>
__device__ __forceinline__ void copy_rows_async(Element* tile, const Element* matrix, int row,
                                                int valid_first, int valid_last, int thread) {
  using Place = SwizzledRows<Columns>;
  // Threads go side by side over whole rows, or over a third of rows of 192 values.
  constexpr int kAcross = Threads % Place::kChunks == 0 ? Place::kChunks : 8;
  constexpr int kRowsAtATime = Threads / kAcross;
  static_assert(Rows % kRowsAtATime == 0 && kRowsAtATime % 8 == 0 && Place::kChunks % kAcross == 0);
  const int my_row = thread / kAcross, chunk = thread % kAcross;
  const Element* const from = matrix + std::int64_t{row + my_row} * Columns + chunk * kChunkValues;
  const auto valid_rows = static_cast<unsigned>(valid_last - valid_first);
#pragma unroll
  for (int r = 0; r < Rows; r += kRowsAtATime)
#pragma unroll
    for (int x = 0; x < Columns; x += kAcross * kChunkValues)
      ptx::cp_async_16(tile + Place::chunk_place(my_row, chunk) * kChunkValues + r * Columns + x,
                       from + r * Columns + x,
                       static_cast<unsigned>(row + my_row + r - valid_first) < valid_rows);
}

}  // namespace ringscope::cuda

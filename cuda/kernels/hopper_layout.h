// The layout of shared memory for the Hopper kernels. A StagePlace is the position of a producer or
// consumer in a ring of stages, in which each advances at its own pace.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/kernels/mma_layout.h"

namespace ringscope::cuda {

// `parity` is that of the barrier phase that the role waits for at this stage (ptx/barrier.h).
template <int kStages>
struct StagePlace {
  int stage = 0;
  std::uint32_t parity = 0;

  __host__ __device__ constexpr void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  __host__ __device__ constexpr StagePlace next() const {
    StagePlace place = *this;
    place.advance();
    return place;
  }
};

// ---
// The second part tells in closed form where Hopper's copy engine and tensor cores put things: the
// 128-byte swizzle, the descriptors by which WGMMA finds an operand in shared memory, and which
// thread of a warpgroup holds which element of an accumulator.
//
// A tile of R rows x head_dim 16-bit elements lies in shared memory as head_dim/64 panels of [R][64
// elements = 128 bytes], each panel a multiple of 1024 bytes. Along a row, eight threads read eight
// different 16-byte columns; down a column, all rows would lie in the same banks. So the copy
// engine writes the 16-byte unit u of row r to place u ^ (r % 8), and WGMMA reads it there.

inline constexpr int kRowBytes = 128;       // of a panel
inline constexpr int kSwizzleBytes = 1024;  // eight rows, after which the pattern repeats
inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kWarpgroupRows = 64;  // of one product
inline constexpr int kProductDepth = 16;   // elements summed over by one product

// The 64-bit descriptor of an operand in shared memory, with all offsets in units of 16 bytes:
//   bits 0-13 start address · 16-29 leading offset · 32-45 stride offset · 49-51 base offset (0 for
//   tiles at multiples of 1024) · 62-63 swizzle (1: 128 bytes)
__host__ __device__ constexpr std::uint64_t operand_descriptor(std::uint32_t start_bytes,
                                                               std::uint32_t leading_bytes,
                                                               std::uint32_t stride_bytes) {
  return std::uint64_t{(start_bytes & 0x3ffffu) >> 4} |
         std::uint64_t{(leading_bytes & 0x3ffffu) >> 4} << 16 |
         std::uint64_t{(stride_bytes & 0x3ffffu) >> 4} << 32 | std::uint64_t{1} << 62;
}

// Describe an operand whose rows (M or N) are rows of the tile and are summed along: Q and K in Q
// K^T. `start` is the shared address of the first row's 16-element piece. Groups of eight rows are
// 1024 bytes apart; the leading offset is unused.
__host__ __device__ constexpr std::uint64_t rows_descriptor(std::uint32_t start) {
  return operand_descriptor(start, 16, kSwizzleBytes);
}

// Describe an operand whose rows (M or N) are columns of the tile, summed over the tile's rows: V
// in P V. `start` is the shared address of the first summed row in the first panel. The stride
// leads to the next eight summed rows, the leading offset to the next 64 columns (a panel).
__host__ __device__ constexpr std::uint64_t columns_descriptor(std::uint32_t start,
                                                               std::uint32_t panel_bytes) {
  return operand_descriptor(start, panel_bytes, kSwizzleBytes);
}

// Return the descriptor with its start moved by `bytes` (a multiple of 16); cheaper than a new one.
__host__ __device__ constexpr std::uint64_t advance(std::uint64_t descriptor, std::uint32_t bytes) {
  return descriptor + (bytes >> 4);
}

// Return the bytes from a tile's first element to element `column` (a multiple of 16) of its row 0,
// for rows_descriptor: 32 bytes per product, a panel every four.
__host__ __device__ constexpr std::uint32_t piece_offset(int column, int tile_rows) {
  return static_cast<std::uint32_t>(column / 64 * tile_rows * kRowBytes + column % 64 * 2);
}

// Return where element d[i] of thread t (0..127) of a warpgroup lies in the 64 x N accumulator.
// Warp w has rows 16 w .. 16 w + 15, in the layout of mma.sync's C for every eight columns. The
// accumulators d[8 k .. 8 k + 7], rounded and packed in pairs, are the operand from
// registers of columns 16 k .. 16 k + 15, so P needs no exchange between threads.
__host__ __device__ constexpr int accumulator_row(int thread, int i) {
  return thread / 32 * kMmaRows + mma::c_row(thread % 32, i % 4);
}
__host__ __device__ constexpr int accumulator_column(int thread, int i) {
  return i / 4 * kMmaColumns + mma::c_column(thread % 32, i);
}

}  // namespace ringscope::cuda

// Tells where the values of a tile lie in shared memory, so that no access waits for a bank.
//
// Shared memory has 32 banks of 4 bytes. An access of 16 bytes per lane is served 8 lanes at a
// time, and each of these wants four neighbouring banks: one of 8 bank groups. ldmatrix reads the
// same 16-byte chunk of 8 consecutive rows. Rows are a multiple of 128 bytes, all banks, so without
// a swizzle these eight chunks meet in one group and take 8 times as long. Therefore chunk c of row
// r lies where chunk c XOR (r mod 8) would. The chunks of a row stay within the row, and a column
// of chunks uses all groups.
//
//      row 0   0 1 2 3 4 5 6 7
//      row 1   1 0 3 2 5 4 7 6
//      row 2   2 3 0 1 6 7 4 5      (64 columns; the number is the chunk that lies there)
//
// For rows of 128 bytes this is what TMA calls its 128-byte swizzle.
#pragma once

#include <cuda_runtime.h>

namespace ringscope::cuda {

inline constexpr int kChunkValues = 8;  // 16-bit values in a chunk of 16 bytes
inline constexpr int kBankGroups = 8;   // a chunk fills one

// A tile of rows of `Columns` 16-bit values, which begins at a multiple of 128 bytes.
template <int Columns>
struct SwizzledRows {
  static_assert(Columns >= 64 && (Columns & (Columns - 1)) == 0, "64, 128, 256 ...");
  static constexpr int kChunks = Columns / kChunkValues;  // in a row

  // Return the place of chunk `chunk` of row `row`, in chunks from the tile's begin.
  __host__ __device__ static constexpr int chunk_place(int row, int chunk) {
    return row * kChunks + (chunk ^ (row % 8));
  }
  // Return the place of a value, in values.
  __host__ __device__ static constexpr int value_place(int row, int column) {
    return chunk_place(row, column / kChunkValues) * kChunkValues + column % kChunkValues;
  }
};

// Return which four banks the chunk at this place fills.
__host__ __device__ constexpr int bank_group(int chunk_place) { return chunk_place % kBankGroups; }

}  // namespace ringscope::cuda

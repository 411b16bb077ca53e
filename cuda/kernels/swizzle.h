// Where the values of a tile lie in shared memory, so that no access waits for a bank.
//
// Shared memory has 32 banks of 4 bytes; an access of 16 bytes a lane is served 8 lanes at a time,
// and each of these eight wants four neighbouring banks: a bank group of its own, of which there
// are 8. ldmatrix wants the same 16-byte chunk of 8 consecutive rows. Rows are a multiple of 128
// bytes, all banks, so without a swizzle these eight chunks meet in one group, and it takes 8 times
// as long. Therefore chunk c of row r lies where chunk c XOR (r mod 8) would: the chunks of a row
// stay within the row, and a column of chunks goes through all groups.
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

// A tile of rows of `Columns` 16-bit values; it begins at a multiple of 128 bytes.
template <int Columns>
struct SwizzledRows {
  static_assert(Columns >= 64 && (Columns & (Columns - 1)) == 0, "64, 128, 256 ...");
  static constexpr int kChunks = Columns / kChunkValues;  // in a row

  // The place, counted in chunks from the tile's begin, of chunk `chunk` of row `row`.
  __host__ __device__ static constexpr int chunk_place(int row, int chunk) {
    return row * kChunks + (chunk ^ (row % 8));
  }
  // The place, counted in values, of a value.
  __host__ __device__ static constexpr int value_place(int row, int column) {
    return chunk_place(row, column / kChunkValues) * kChunkValues + column % kChunkValues;
  }
};

// Which four banks the chunk at this place fills.
__host__ __device__ constexpr int bank_group(int chunk_place) { return chunk_place % kBankGroups; }

}  // namespace ringscope::cuda

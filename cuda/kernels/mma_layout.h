// Tells where values lie: in shared memory, so that no access waits for a bank, and in the
// registers of a warp, as mma.sync wants them.
#pragma once

#include <cuda_runtime.h>

namespace ringscope::cuda {

// ---
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

inline constexpr int kChunkValues = 8;  // 16-bit values in a chunk of 16 bytes
inline constexpr int kBankGroups = 8;   // a chunk fills one

// A tile of rows of `Columns` 16-bit values, which begins at a multiple of 128 bytes.
template <int Columns>
struct SwizzledRows {
  static_assert(Columns % 64 == 0);
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

// ---
// Matrices in the layout of mma.sync. One instruction multiplies A (16 rows x 16 k) with B (16 k x
// 8 columns) into an f32 accumulator C (16 x 8), spread over the 32 lanes of a warp. With row =
// lane div 4 and pair = 2 (lane mod 4):
//
//   A  register r of 4: row  row + 8 (r mod 2), k = pair + 8 (r div 2) and the next one
//   B  register r of 2: column  row,            k = pair + 8 r         and the next one
//   C  value i of 4:    row  row + 8 (i div 2), column  pair + i mod 2
//
// So the four lanes of a quad share rows of C. C has the layout of A, so the accumulators of one
// product become the A of the next one without leaving their lanes.

inline constexpr int kMmaRows = 16, kMmaColumns = 8, kMmaDepth = 16;

namespace mma {

// Return the position of the first of the two values in a register of A.
__host__ __device__ constexpr int a_row(int lane, int reg) { return lane / 4 + 8 * (reg % 2); }
__host__ __device__ constexpr int a_k(int lane, int reg) { return 2 * (lane % 4) + 8 * (reg / 2); }
// Likewise for B.
__host__ __device__ constexpr int b_k(int lane, int reg) { return 2 * (lane % 4) + 8 * reg; }
__host__ __device__ constexpr int b_column(int lane) { return lane / 4; }
// Return the position of value i of C.
__host__ __device__ constexpr int c_row(int lane, int i) { return lane / 4 + 8 * (i / 2); }
__host__ __device__ constexpr int c_column(int lane, int i) { return 2 * (lane % 4) + i % 2; }

// The row, and the half of it (8 values), of a 16 x 16 square that a lane's address for ldmatrix.x4
// points to.
struct SquareRow {
  int row;
  int half;
};
__host__ __device__ constexpr SquareRow down_then_right(int lane) { return {lane % 16, lane / 16}; }
__host__ __device__ constexpr SquareRow right_then_down(int lane) {
  return {lane % 8 + lane / 16 * 8, lane / 8 % 2};
}

// Return, in values, where that chunk lies in a swizzled tile, for the square at (row, column),
// multiples of 16. Written so that few numbers depend on the lane: the column within its 64 is
// XORed (4 possible numbers), the rest are constants to add.
template <int Columns>
__host__ __device__ constexpr int square_place(SquareRow mine, int row, int column) {
  return (SwizzledRows<Columns>::value_place(mine.row, mine.half * kChunkValues) ^ column % 64) +
         column / 64 * 64 + row * Columns;
}

}  // namespace mma

}  // namespace ringscope::cuda

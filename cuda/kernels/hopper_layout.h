// Where a role of a block is in a ring of shared-memory stages, which producer and consumers walk at
// their own pace.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ringscope::cuda {

// `parity` is that of the barrier phase which the role waits for at this stage (ptx/barrier.h).
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
// Where things lie for Hopper's copy engine and tensor cores, in closed form: the 128-byte swizzle,
// the descriptors by which WGMMA finds an operand in shared memory, and which thread of a warpgroup
// holds which element of an accumulator.
//
// A tile of R rows x head_dim 16-bit elements lies in shared memory as head_dim/64 panels of [R][64
// elements = 128 bytes], each panel a multiple of 1024 bytes. Read along a row, eight threads meet
// eight different 16-byte columns; read down a column, all rows would lie in the same banks. So the
// copy engine writes the 16-byte unit u of row r to place u ^ (r % 8), and WGMMA looks for it
// there.

inline constexpr int kRowBytes = 128;       // of a panel
inline constexpr int kSwizzleBytes = 1024;  // eight rows: after them the pattern repeats
inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kWarpgroupRows = 64;  // of one product
inline constexpr int kProductDepth = 16;   // elements summed over by one product

// Where the byte at `address` of an unswizzled tile goes: bits 4-6 (the 16-byte unit) are XORed
// with bits 7-9 (the row). Its own inverse. Tiles begin at multiples of 1024.
__host__ __device__ constexpr std::uint32_t swizzle_128(std::uint32_t address) {
  return address ^ ((address >> 3) & 0x70u);
}

// The 64-bit descriptor of an operand in shared memory, all offsets in units of 16 bytes:
//   bits 0-13 start address · 16-29 leading offset · 32-45 stride offset · 49-51 base offset (0 for
//   tiles at multiples of 1024) · 62-63 swizzle (1: 128 bytes)
struct OperandDescriptor {
  std::uint32_t start_bytes = 0;
  std::uint32_t leading_bytes = 0;
  std::uint32_t stride_bytes = 0;
  std::uint32_t base_offset = 0;
  std::uint32_t swizzle = 1;

  constexpr bool operator==(const OperandDescriptor&) const = default;

  __host__ __device__ constexpr std::uint64_t encode() const {
    return std::uint64_t{(start_bytes & 0x3ffffu) >> 4} |
           std::uint64_t{(leading_bytes & 0x3ffffu) >> 4} << 16 |
           std::uint64_t{(stride_bytes & 0x3ffffu) >> 4} << 32 |
           std::uint64_t{base_offset & 7u} << 49 | std::uint64_t{swizzle & 3u} << 62;
  }
  __host__ __device__ static constexpr OperandDescriptor decode(std::uint64_t bits) {
    const auto bytes = [bits](int shift) {
      return static_cast<std::uint32_t>(bits >> shift & 0x3fffu) << 4;
    };
    return {bytes(0), bytes(16), bytes(32), static_cast<std::uint32_t>(bits >> 49 & 7u),
            static_cast<std::uint32_t>(bits >> 62)};
  }
};

// The operand whose rows (M or N) are rows of the tile, summed over along them: Q and K in Q K^T.
// `start`: shared address of the first row's 16-element piece. Groups of eight rows follow each
// other at 1024 bytes; the leading offset means nothing here.
__host__ __device__ constexpr std::uint64_t rows_descriptor(std::uint32_t start) {
  return OperandDescriptor{start, 16, kSwizzleBytes}.encode();
}

// The operand whose rows (M or N) are columns of the tile, summed over the tile's rows: V in P V.
// `start`: shared address of the first summed row in the first panel. Stride: from eight summed
// rows to the next eight. Leading: from 64 columns to the next 64, that is, a panel.
__host__ __device__ constexpr std::uint64_t columns_descriptor(std::uint32_t start,
                                                               std::uint32_t panel_bytes) {
  return OperandDescriptor{start, panel_bytes, kSwizzleBytes}.encode();
}

// A descriptor whose start lies `bytes` (a multiple of 16) further on; cheaper than a new one.
__host__ __device__ constexpr std::uint64_t advance(std::uint64_t descriptor, std::uint32_t bytes) {
  return descriptor + (bytes >> 4);
}

// Bytes from a tile's first element to element `column` (a multiple of 16) of its row 0, for
// rows_descriptor: 32 bytes a product, a panel every four.
__host__ __device__ constexpr std::uint32_t piece_offset(int column, int tile_rows) {
  return static_cast<std::uint32_t>(column / 64 * tile_rows * kRowBytes + column % 64 * 2);
}

// Element d[i] of thread t (0..127) of a warpgroup is (row, column) of the 64 x N accumulator: warp
// w has rows 16 w .. 16 w + 15, every four threads one row of eight columns and the row eight
// below.
__host__ __device__ constexpr int accumulator_row(int thread, int i) {
  return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
}
__host__ __device__ constexpr int accumulator_column(int thread, int i) {
  return i / 4 * 8 + thread % 4 * 2 + i % 2;
}

// Half h of register a[i] of an operand A from registers (64 x 16). The accumulators d[8 k ..
// 8 k + 7], rounded and packed in pairs, are the operand of columns 16 k .. 16 k + 15: the layouts
// agree, so P needs no exchange between threads.
__host__ __device__ constexpr int operand_row(int thread, int i) {
  return thread / 32 * 16 + thread % 32 / 4 + i % 2 * 8;
}
__host__ __device__ constexpr int operand_column(int thread, int i, int half) {
  return i / 2 * 8 + thread % 4 * 2 + half;
}

}  // namespace ringscope::cuda

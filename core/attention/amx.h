// Products of tiles by AMX, the tile registers of x86 processors, for attention whose tensors are
// stored in bf16. They are the same sums as those of tile_product.h: products of bf16 are exact and
// are added up in f32. Weights, and the gradients of scores, are f32, so they take part as the sum of
// three bf16, which together have all digits of an f32.
//
// AMX counts what is below 2^-126 as 0. Therefore it serves ordinary values only, and weights count
// in units of kAmxUnit, so that nothing is lost which f32 would hold.
#pragma once

#include "core/attention/tile_product.h"
#include "core/base/dtype.h"
#include "core/problem/region.h"

namespace ringscope {

inline constexpr Index kAmxRows = 16;   // of a register; and columns of a product
inline constexpr Index kAmxInner = 32;  // values of the inner dimension in a register
inline constexpr int kAmxParts = 3;     // of a weight
inline constexpr float kAmxUnit = 0x1p-24f;
// Queries of a tile. Their scores fit in the L1 cache, and their number is a whole inner block.
inline constexpr Index kAmxTileRows = 32;

// Ordinary values are 0, or at least 2^-48 and less than 2^20 in magnitude. Return the largest
// magnitude, or infinity if a value is not ordinary.
float largest_ordinary(const bf16* values, Index count);

// While it lives, this thread may call amx_product, if it is `used`.
class AmxRegisters {
 public:
  explicit AmxRegisters(bool used);
  ~AmxRegisters();
  AmxRegisters(const AmxRegisters&) = delete;
  AmxRegisters& operator=(const AmxRegisters&) = delete;

 private:
  bool used_;
};

// A matrix of bf16 in registers' shape: blocks of 16 rows, each 16 words of two values that are
// neighbours along the inner dimension. Steps count words of 4 bytes. A matrix may be a sum of parts.
struct AmxOperand {
  const float* words;
  Index row_step;
  Index block_step;  // to the next 16 rows of the left, or columns of the right operand
  Index inner_step;  // to the next 32 values of the inner dimension
  Index part_step = 0;
  int parts = 1;

  AmxOperand from_block(Index first) const {
    AmxOperand part = *this;
    part.words += first / kAmxRows * block_step;
    return part;
  }
  AmxOperand from_inner(Index first) const {
    AmxOperand part = *this;
    part.words += first / kAmxInner * inner_step;
    return part;
  }
};

// Lay out a row-major matrix, padded with zeros, at `to` as an operand. As the left one, A(i, k), its
// rows are those of A, or its columns are; as the right one, B(k, j), likewise those of B. Where the
// inner dimension counts its columns, columns 2k and 2k + 1 are neighbours. Rows are so in the left
// operand; in the right one rows k and k + 16 of each 32 are.
AmxOperand rows_as_left(const bf16* matrix, Index rows, Index width, float* to);
AmxOperand columns_as_left(const bf16* matrix, Index rows, Index width, float* to);
AmxOperand columns_as_right(const bf16* matrix, Index rows, Index width, float* to);
AmxOperand rows_as_right(const bf16* matrix, Index rows, Index width, float* to);

// Store words of the bf16 nearest to the lanes of a, in the lower halves, and b; `step` words behind them
// the same of what these lack, and then of the rest.
inline void split_pair(Vector a, Vector b, float* to, Index step) {
  constexpr std::uint32_t kUpperHalf = 0xffff0000;
  for (int part = 0; part < kAmxParts; ++part, to += step) {
    BitsVector a_bits, b_bits;
    std::memcpy(&a_bits, &a, sizeof a_bits);
    std::memcpy(&b_bits, &b, sizeof b_bits);
    a_bits = (a_bits + 0x8000) & kUpperHalf;
    b_bits = (b_bits + 0x8000) & kUpperHalf;
    const BitsVector words = (a_bits >> 16) | b_bits;
    std::memcpy(to, &words, sizeof words);
    Vector a_nearest, b_nearest;
    std::memcpy(&a_nearest, &a_bits, sizeof a_nearest);
    std::memcpy(&b_nearest, &b_bits, sizeof b_nearest);
    a -= a_nearest;
    b -= b_nearest;
  }
}

// Split `columns` of a row of weights, times `factor`, into words at `to`, which begin at column 0:
// words_of_weights(n) for n columns. A tile can be split in place, the last row first: what is written
// lies behind what is still to be read. Rows of words are weights_as_left(), whose inner dimension
// counts columns as that of rows_as_right does rows.
inline constexpr Index words_of_weights(Index columns) { return columns / 2 * kAmxParts; }
void split_row(const float* row, Interval columns, float factor, float* to);
AmxOperand weights_as_left(const float* words, Index columns);

// Split two rows of weights into kAmxParts rows of words at `to`. Rows are `stride` apart. A tile can be
// split in place in the same way. The whole is weights_as_right(), whose inner dimension counts rows as
// that of columns_as_left does.
void split_rows(const float* rows, Index stride, Interval columns, float* to);
AmxOperand weights_as_right(const float* words, Index stride);

// Compute C (rows x columns) = or += A (rows x inner) B (inner x columns), rounded up to whole blocks.
void amx_product(const AmxOperand& a, const AmxOperand& b, Store store, float* c, Index c_stride,
                 Index rows, Index columns, Index inner);

}  // namespace ringscope

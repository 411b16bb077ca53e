// C = A B, or C += A B, for tiles that lie in cache: the one matrix product that all of attention's
// are.
//
// A micro-tile of C, kMicroRows x kMicroVectors vectors, stays in registers while the loop over the
// inner dimension broadcasts a value of A and multiplies it with vectors of a row of B. A has any
// two strides, so it may be transposed; rows of B are padded to whole vectors and readable there.
// A long inner dimension is summed by itself and only then added to C, so the rounding of a sum
// grows with the number of calls plus the length of one, not with their product (adding up 32,768
// keys one by one loses a digit and more). A short one goes on where C stands: with few rows a
// rank, the rounding of that extra addition would show.
#pragma once

#include <utility>

#include "core/attention/vector.h"

namespace ringscope {

// Wide enough that the accumulators hide the multiply-add's latency, small enough for the
// registers: 32 of them with AVX-512 and on NEON, 16 otherwise.
#if defined(__AVX512F__) || defined(__ARM_NEON)
inline constexpr int kMicroRows = 6, kMicroVectors = 4;
#else
inline constexpr int kMicroRows = 4, kMicroVectors = 3;
#endif

// A(i, k) = data[i * row_stride + k * inner_stride].
struct LeftTile {
  const float* data;
  Index row_stride;
  Index inner_stride;
};

enum class Store { overwrite, accumulate };

// Inner dimensions up to this continue the sum that C holds, longer ones are added to it.
inline constexpr Index kShortSum = 32;

namespace tile_product_detail {

template <int kRows, int kVectors, Store kStore>
inline void micro_tile(const LeftTile& a, const float* b, Index b_stride, float* c, Index c_stride,
                       Index inner, Index last_lanes) {
  const bool add_on = kStore == Store::accumulate && inner <= kShortSum;
  Vector sum[kRows][kVectors] = {};
  if (add_on)
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kVectors; ++j) {
        const float* from = c + i * c_stride + j * kVectorWidth;
        sum[i][j] = j == kVectors - 1 && last_lanes < kVectorWidth ? load_first(from, last_lanes)
                                                                   : load(from);
      }
  const float* a_column = a.data;
  for (Index k = 0; k < inner; ++k) {
    Vector row[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) row[j] = load(b + j * kVectorWidth);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Vector left = broadcast(a_column[i * a.row_stride]);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) sum[i][j] += left * row[j];
    }
    a_column += a.inner_stride;
    b += b_stride;
  }
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kVectors; ++j) {
      float* to = c + i * c_stride + j * kVectorWidth;
      if (j == kVectors - 1 && last_lanes < kVectorWidth) {
        if (kStore == Store::accumulate && !add_on) sum[i][j] += load_first(to, last_lanes);
        store_first(to, sum[i][j], last_lanes);
      } else {
        if (kStore == Store::accumulate && !add_on) sum[i][j] += load(to);
        store(to, sum[i][j]);
      }
    }
}

// All rows of one panel of kVectors vectors; rows that don't fill a micro-tile get an instance of
// their own.
template <int kVectors, Store kStore>
inline void panel(LeftTile a, const float* b, Index b_stride, float* c, Index c_stride, Index rows,
                  Index inner, Index last_lanes) {
  for (; rows >= kMicroRows; rows -= kMicroRows) {
    micro_tile<kMicroRows, kVectors, kStore>(a, b, b_stride, c, c_stride, inner, last_lanes);
    a.data += kMicroRows * a.row_stride;
    c += kMicroRows * c_stride;
  }
  [&]<int... kRows>(std::integer_sequence<int, kRows...>) {
    ((rows == kRows + 1
          ? micro_tile<kRows + 1, kVectors, kStore>(a, b, b_stride, c, c_stride, inner, last_lanes)
          : void()),
     ...);
  }
  (std::make_integer_sequence<int, kMicroRows - 1>{});
}

}  // namespace tile_product_detail

// C (rows x columns) = or += A (rows x inner) B (inner x columns). Strides in floats; C's rows need
// not be padded.
template <Store kStore>
void tile_product(const LeftTile& a, const float* b, Index b_stride, float* c, Index c_stride,
                  Index rows, Index columns, Index inner) {
  using namespace tile_product_detail;
  constexpr Index kPanel = kMicroVectors * kVectorWidth;
  for (; columns >= kPanel; columns -= kPanel) {
    panel<kMicroVectors, kStore>(a, b, b_stride, c, c_stride, rows, inner, kVectorWidth);
    b += kPanel;
    c += kPanel;
  }
  const Index vectors = ceil_div(columns, kVectorWidth);
  const Index last_lanes = columns - (vectors - 1) * kVectorWidth;
  [&]<int... kVectors>(std::integer_sequence<int, kVectors...>) {
    ((vectors == kVectors + 1
          ? panel<kVectors + 1, kStore>(a, b, b_stride, c, c_stride, rows, inner, last_lanes)
          : void()),
     ...);
  }
  (std::make_integer_sequence<int, kMicroVectors>{});
}

}  // namespace ringscope

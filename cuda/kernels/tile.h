// The algebra of the tensor-core kernels (05, 06, 07, 09, 11): tiles of accumulators, and what is done
// with them.
//
//   forward    S = Q K^T    m = max(m, row_max(S))    P = exp2(S - m)    O = factor O + P V
//   backward   S^T = K Q^T    dP^T = V dO^T    dS = P (dP - delta)    dV += P^T dO    dK += dS^T Q
//
// mma_tile.h has the products that one warp computes, warpgroup.h those of four. Both leave f32
// accumulators spread over the lanes of a warp in the same way:
//
//   A band is 16 rows. A lane has two of them, h = 0 and 1: lane / 4 and eight below. Of each group of
//   8 columns it has two neighbours, a pair: 2 (lane mod 4) and the next. So four lanes share a row.
//
// The band of a warpgroup's thread is that of its warp, whose number counts bands.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/kernels/mma_layout.h"
#include "cuda/kernels/ring_step.h"
#include "cuda/ptx/numbers.h"

namespace ringscope::cuda {

// Return the lane's row h in a band, and its first column.
__device__ __forceinline__ int tile_row(int lane, int h) { return mma::c_row(lane, 2 * h); }
__device__ __forceinline__ int tile_column(int lane) { return mma::c_column(lane, 0); }

// Call f(band, h) for a lane's rows.
template <int kBands, class F>
__device__ __forceinline__ void for_each_row(const F& f) {
#pragma unroll
  for (int band = 0; band < kBands; ++band)
#pragma unroll
    for (int h = 0; h < 2; ++h) f(band, h);
}

// A warp's kBands x 16 rows by kColumns columns.
template <int kBands_, int kColumns_>
struct Tile {
  static constexpr int kBands = kBands_, kColumns = kColumns_;

  float values[kBands][kColumns / 2];  // of this lane

  // Call f(left, right, column) for the pairs of a row. Columns count from the lane's first.
  template <class F>
  __device__ __forceinline__ void for_each_pair(int band, int h, const F& f) {
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n)
      f(values[band][4 * n + 2 * h], values[band][4 * n + 2 * h + 1], 8 * n);
  }
  // Call f(left, right, band, h, column) for all pairs, those of the same columns together.
  template <class F>
  __device__ __forceinline__ void for_each_pair(const F& f) {
#pragma unroll
    for (int band = 0; band < kBands; ++band)
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
        for (int h = 0; h < 2; ++h)
          f(values[band][4 * n + 2 * h], values[band][4 * n + 2 * h + 1], band, h, 8 * n);
  }

  __device__ __forceinline__ void set(float value) {
    for_each_pair([&](float& left, float& right, int, int, int) { left = right = value; });
  }

  // Set values to `value` in columns outside of allowed(band, h), which counts from column 0.
  template <class F>
  __device__ __forceinline__ void mask(int lane, float value, const F& allowed) {
    for_each_row<kBands>([&](int band, int h) {
      const RowInterval columns = allowed(band, h);
      const int first = columns.first - tile_column(lane), last = columns.last - tile_column(lane);
      for_each_pair(band, h, [&](float& left, float& right, int column) {
        if (column < first || column >= last) left = value;
        if (column + 1 < first || column + 1 >= last) right = value;
      });
    });
  }

  // Return the largest value of a row among this lane's.
  __device__ __forceinline__ float largest(int band, int h) {
    float largest = fmaxf(values[band][2 * h], values[band][2 * h + 1]);
    for_each_pair(band, h, [&](float& left, float& right, int) {
      largest = fmaxf(largest, fmaxf(left, right));
    });
    return largest;
  }

  // Turn a row's values t into exp2(scale t - unit). Return the sum of this lane's.
  __device__ __forceinline__ float exponentiate(int band, int h, float scale, float unit) {
    float sum = 0;
    for_each_pair(band, h, [&](float& left, float& right, int) {
      left = ptx::exp2_approx(fmaf(left, scale, -unit));
      right = ptx::exp2_approx(fmaf(right, scale, -unit));
      sum += left + right;
    });
    return sum;
  }

  __device__ __forceinline__ void multiply(const Tile& by) {
#pragma unroll
    for (int band = 0; band < kBands; ++band)
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) values[band][i] *= by.values[band][i];
  }
  __device__ __forceinline__ void scale(int band, int h, float factor) {
    for_each_pair(band, h, [&](float& left, float& right, int) {
      left *= factor;
      right *= factor;
    });
  }

  // Load a row of f32 in memory. One that does not exist is zeros.
  __device__ __forceinline__ void load(int band, int h, int lane, const float* row, bool exists) {
    for_each_pair(band, h, [&](float& left, float& right, int column) {
      const float2 pair = exists
                              ? *reinterpret_cast<const float2*>(row + tile_column(lane) + column)
                              : make_float2(0, 0);
      left = pair.x;
      right = pair.y;
    });
  }
  // Add the tile's row to one in memory, if it exists. All lanes of a warp call together. Two neighbours
  // exchange a pair, so that each has four columns in a row: the even lane of this group of 8, the odd
  // one of the next.
  __device__ __forceinline__ void add_to(int band, int h, int lane, float* row, bool exists) {
    static_assert(kColumns % 16 == 0);
    const bool odd = lane % 2 != 0;
    float* const own = row + tile_column(lane) + (odd ? 6 : 0);
#pragma unroll
    for (int column = 0; column < kColumns; column += 16) {
      const float* const here = values[band] + column / 2 + 2 * h;
      const float* const next = here + 4;
      const float left = __shfl_xor_sync(~0u, odd ? here[0] : next[0], 1);
      const float right = __shfl_xor_sync(~0u, odd ? here[1] : next[1], 1);
      if (exists)
        ptx::add_to_memory(own + column, odd ? make_float4(left, right, next[0], next[1])
                                             : make_float4(here[0], here[1], left, right));
    }
  }
  // Set a row in memory to factor times the tile's.
  __device__ __forceinline__ void store(int band, int h, int lane, float* row, float factor) {
    for_each_pair(band, h, [&](float& left, float& right, int column) {
      *reinterpret_cast<float2*>(row + tile_column(lane) + column) =
          make_float2(left * factor, right * factor);
    });
  }
};

// Weights: a tile rounded to 16 bits, as the left operand of a product over its columns. Its layout is
// that of the accumulators, so they need not leave their lanes.
template <int kColumns>
using Weights = std::uint32_t[kColumns / 16][4];

// Round columns [column, column + 16) of a band.
template <class Element, class T>
__device__ __forceinline__ void round_weights(std::uint32_t (&weights)[4], const T& tile, int band,
                                              int column) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float* const pair = tile.values[band] + column / 2 + 2 * i;
    weights[i] = ptx::pack<Element>(pair[0], pair[1]);
  }
}

}  // namespace ringscope::cuda

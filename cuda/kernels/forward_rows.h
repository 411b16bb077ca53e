// What the forward kernels on tensor cores (05, 06, 07) keep of the rows of one warp, and do with them
// from tile to tile of keys. How S and O += P V come about is theirs.
//
//   S = Q K^T     m = row_max     P = exp2(S - unit) replaces S     l = row_sum     O = o
//
// Units: t = s * exponent_scale with exponent_scale = |softmax_scale| log2(e), so exp is one exp2,
// and the subtraction is part of a multiply-add. A negative softmax_scale negates Q, which is exact.
// A scale of 0 becomes the smallest normal number, so that masked scores stay -inf and all others
// become 0. m is kept in units of t, and in the state in natural units.
//
// For Hopper, P is relative to an earlier row_max until row_max exceeds it by kLazyGrowth. While no
// row of a warp does, O is not multiplied, which takes as many instructions as exp2 (the idea of
// FlashAttention-4: flash_attn/cute/softmax.py of Dao-AILab/flash-attention). P is at most
// 2^kLazyGrowth then, which bf16 and f16 hold, and the end of a step brings o and l to row_max.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "cuda/kernels/row_state.h"
#include "cuda/kernels/tile.h"

namespace ringscope::cuda {

inline constexpr float kLazyGrowth = 8;  // of a row's maximum, in powers of two

// Several warps have their rows one after the other, from row `first_row` of the tensor on, and `thread`
// counts their threads. `first_query` is the row_index() of row 0. Rows past the end compute on zeros
// and store nothing.
template <class Element, int kBands, int kKeys, int kValueDim, bool kHopper>
struct ForwardRows {
  using Real = std::conditional_t<kHopper, float, double>;  // of what is done once for a row

  Tile<kBands, kKeys> s;      // scores, then P
  Tile<kBands, kValueDim> o;  // out_accum
  float row_max[kBands][2], unit[kBands][2];
  float row_sum[kBands][2];  // relative to unit; covers this lane's columns and this step
  float factor[kBands][2];   // pending factor of o

  static __device__ __forceinline__ int row_of(int first_row, int thread, int band, int h) {
    return first_row + (thread / 32 * kBands + band) * 16 + tile_row(thread % 32, h);
  }
  // Return what P is relative to.
  __device__ __forceinline__ float& unit_of(int band, int h) {
    if constexpr (kHopper)
      return unit[band][h];
    else
      return row_max[band][h];
  }

  // Load the carried state.
  __device__ __forceinline__ void begin(const ForwardStep& step, std::int64_t first_query,
                                        int first_row, int thread) {
    for_each_row<kBands>([&](int band, int h) {
      const int row = row_of(first_row, thread, band, h);
      const std::int64_t query = first_query + row;
      const bool carried = !step.first && row < step.shape.rows_q;
      row_max[band][h] = unit_of(band, h) = carried ? step.row_max[query] * kLog2e : kNoKeys;
      row_sum[band][h] = 0;
      o.load(band, h, thread % 32, step.out + query * kValueDim, carried);
    });
  }

  // Set the scores of keys that a row may not attend to -inf. `key` is the tile's first key.
  __device__ __forceinline__ void mask(const ForwardStep& step, int key, int first_row,
                                       int thread) {
    s.mask(thread % 32, kNoKeys, [&](int band, int h) -> RowInterval {
      const int row = row_of(first_row, thread, band, h);
      const RowInterval allowed =
          row < step.shape.rows_q ? step.allowed_keys[row] : RowInterval{0, 0};
      return {allowed.first - key, allowed.last - key};
    });
  }

  // Do the online softmax: S becomes P, row_max and row_sum include it, and `factor` brings o to the
  // new unit.
  __device__ __forceinline__ void softmax(float exponent_scale) {
    for_each_row<kBands>([&](int band, int h) {
      float& its_unit = unit_of(band, h);
      const float before = its_unit;
      const float now =
          fmaxf(row_max[band][h], max_over_lanes<4>(s.largest(band, h)) * exponent_scale);
      row_max[band][h] = now;
      if (!kHopper || !(now - before < kLazyGrowth)) its_unit = now;  // also from -inf
      const float subtracted = exponent_unit(its_unit);
      factor[band][h] = ptx::exp2_approx(before - subtracted);
      const float sum = s.exponentiate(band, h, exponent_scale, subtracted);
      row_sum[band][h] = row_sum[band][h] * factor[band][h] + sum;
    });
  }

  __device__ __forceinline__ void rescale_output() {
    if (kHopper && !__any_sync(0xffffffffu, factor[0][0] != 1 || factor[0][1] != 1)) return;
    for_each_row<kBands>([&](int band, int h) { o.scale(band, h, factor[band][h]); });
  }

  // Store the state in the form that the next step, or the reader of the result, expects.
  __device__ __forceinline__ void end(const ForwardStep& step, int head, std::int64_t first_query,
                                      int first_row, int thread) {
    for_each_row<kBands>([&](int band, int h) {
      const float sum = sum_over_lanes<4>(row_sum[band][h]);
      const int row = row_of(first_row, thread, band, h);
      const bool exists = row < step.shape.rows_q;
      const std::int64_t query = first_query + row;
      const CarriedRow before = exists ? carried_row(step, query) : CarriedRow{};
      __syncwarp();  // all four lanes of the row have read the state
      if (!exists) return;
      const float grown = !kHopper || unit[band][h] == row_max[band][h]
                              ? 1
                              : ptx::exp2_approx(unit[band][h] - row_max[band][h]);
      const EndedRow ended =
          ended_row<Real>(step, head, before, natural_max(before, row_max[band][h]), sum * grown);
      if (thread % 4 == 0) store_row<Real>(step, query, ended);
      const float by = out_factor<Real>(step, ended) * grown;
      if (!kHopper || step.out_16 == nullptr)
        return o.store(band, h, thread % 32, step.out + query * kValueDim, by);
      auto* const out = static_cast<std::uint32_t*>(step.out_16) +
                        (query * kValueDim + tile_column(thread % 32)) / 2;
      o.for_each_pair(band, h, [&](float& left, float& right, int column) {
        out[column / 2] = ptx::pack<Element>(left * by, right * by);
      });
    });
  }
};

}  // namespace ringscope::cuda

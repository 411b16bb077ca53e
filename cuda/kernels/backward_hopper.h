// Holds a block's shared memory in the Hopper backward (10 and, in part, 11), and one consumer
// warpgroup's work on its 64 own rows. backward_rows.h explains owners and visitors.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>

#include "cuda/kernels/backward_rows.h"
#include "cuda/kernels/warpgroup.h"
#include "cuda/ptx/registers.h"

namespace ringscope::cuda {

// One compiled instance: kOwn own rows x kVisit visiting rows, kStages tiles of visitors.
template <class Element_, Owner kOwner_, int kOwn_, int kVisit_, int kHeadDim_, int kStages_>
struct BackwardHopperConfig : WarpgroupRoles<kOwn_> {
  using WarpgroupRoles<kOwn_>::kConsumers;
  using Element = Element_;
  static constexpr Owner kOwner = kOwner_;
  static constexpr bool kKeysOwn = kOwner == Owner::keys;
  static constexpr int kOwn = kOwn_, kVisit = kVisit_, kHeadDim = kHeadDim_, kStages = kStages_;
  // Whether there are registers to compute dS from P in f32 while dV reads P as an operand.
  static constexpr bool kDsUnderDv = kKeysOwn && kConsumers == 2 && kVisit <= 64;
  static constexpr int kOwnBytes = kOwn * kHeadDim * 2, kVisitBytes = kVisit * kHeadDim * 2;
  static_assert(kVisit % kProductDepth == 0 && kVisit * kRowBytes % kSwizzleBytes == 0);
  static_assert(kStages >= 2, "the next S begins before this tile's gradients are done");
};

// What the producer stores beside a tile of visitors, so that consumers need no registers for it:
// the tile's first row, whether it needs a mask and, when queries visit, their units and deltas for
// P and dS (QueryUnits).
template <int kQueries>
struct VisitorNotes {
  alignas(16) float unit[kQueries];
  alignas(16) float delta[kQueries];
  std::int32_t first_row;
  std::int32_t masked;
};

template <class Config>
struct BackwardHopperStorage {
  using Element = typename Config::Element;
  alignas(kSwizzleBytes) Element own[2][Config::kOwn * Config::kHeadDim];
  alignas(kSwizzleBytes) Element visitors[Config::kStages][2][Config::kVisit * Config::kHeadDim];
  VisitorNotes<Config::kKeysOwn ? Config::kVisit : 4> notes[Config::kStages];
  ptx::Barrier own_full;
  ptx::Barrier full[Config::kStages], empty[Config::kStages];
};

// Gives a query row's P = exp(score - m) / l = exp2(t - unit) with t = s scale log2(e), and dS = P
// (dP - delta). A row without keys, or past the end, has unit = inf and thus P = 0.
struct QueryUnits {
  float unit = std::numeric_limits<float>::infinity();
  float delta = 0;
};

__device__ __forceinline__ QueryUnits query_units(const BackwardStep& step, std::int64_t matrix,
                                                  int row) {
  if (row >= step.shape.rows_q) return {};
  const std::int64_t at = matrix * step.shape.rows_q + row;
  return {base2_unit(step.row_max[at], step.row_sum[at]), step.delta[at]};
}

// One warpgroup's 64 own rows. Its 128 threads call all functions together. In an accumulator, each
// thread has two rows, h = 0 and 1, eight apart (hopper_layout.h).
template <class Config>
struct BackwardHopperRows {
  using Element = typename Config::Element;
  using Storage = BackwardHopperStorage<Config>;
  static constexpr int kVisit = Config::kVisit, kHeadDim = Config::kHeadDim;
  static constexpr bool kKeysOwn = Config::kKeysOwn;

  float s[kVisit / 2];                        // S, then P
  float dp[kVisit / 2];                       // dP, then dS
  std::uint32_t p[kVisit / 16][4];            // P rounded, as an operand; when keys own
  std::uint32_t ds[kVisit / 16][4];           // dS
  float first[kHeadDim / 2];                  // gradient of own[0]: dK, or dQ
  float second[kKeysOwn ? kHeadDim / 2 : 1];  // of own[1]: dV
  QueryUnits queries[2];                      // of h; when queries own
  int row;                  // row h = 0 in the tensor; rows past the end are computed, not stored
  std::uint32_t own_start;  // shared address of the 64 rows in own[0]
  unsigned pairs = 0;       // allowed pairs; every fourth thread counts those of its rows

  __device__ __forceinline__ BackwardHopperRows(const Storage& shared, int warpgroup,
                                                const RowTile& own)
      : row(own.first + warpgroup * kWarpgroupRows +
            accumulator_row(ptx::thread_index() % kWarpgroupThreads, 0)),
        own_start(ptx::shared_address(shared.own[0]) + warpgroup * kWarpgroupRows * kRowBytes) {
#pragma unroll
    for (int i = 0; i < kHeadDim / 2; ++i) {
      first[i] = 0;
      if constexpr (kKeysOwn) second[i] = 0;
    }
  }

  static __device__ __forceinline__ int thread() {
    return static_cast<int>(threadIdx.x) % kWarpgroupThreads;
  }

  // Start product = own[i] visitors[i]^T: S for i = 0, dP for i = 1.
  __device__ __forceinline__ void start_product(float (&product)[kVisit / 2], int i,
                                                const Storage& shared, int stage) {
    start_row_product<kHeadDim, Config::kOwn, kVisit>(
        product, rows_descriptor(own_start + i * Config::kOwnBytes), shared.visitors[stage][i]);
  }

  // Start gradient += weights visitors[i].
  __device__ __forceinline__ void start_gradient(float (&gradient)[kHeadDim / 2],
                                                 const std::uint32_t (&weights)[kVisit / 16][4],
                                                 int i, const Storage& shared, int stage) {
    start_column_product<kHeadDim, kVisit>(gradient, weights, shared.visitors[stage][i]);
  }

  // Return two neighbouring columns' units or deltas. When queries visit, these belong to columns.
  static __device__ __forceinline__ float2 of_columns(const float* notes, int i) {
    return *reinterpret_cast<const float2*>(notes + accumulator_column(thread(), i));
  }

  // Turn S into P.
  __device__ __forceinline__ void exponentials(const Storage& shared, int stage,
                                               float exponent_scale) {
#pragma unroll
    for (int i = 0; i < kVisit / 2; i += 4) {
      float2 unit;
      if constexpr (kKeysOwn) unit = of_columns(shared.notes[stage].unit, i);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if constexpr (!kKeysOwn) unit = {queries[h].unit, queries[h].unit};
        float* const pair = s + i + 2 * h;
        pair[0] = ptx::exp2_approx(fmaf(pair[0], exponent_scale, -unit.x));
        pair[1] = ptx::exp2_approx(fmaf(pair[1], exponent_scale, -unit.y));
      }
    }
  }

  // Set P of pairs that the mask forbids to 0. `first_visitor` is the tile's first row.
  __device__ __forceinline__ void mask(const RowInterval* table, int own_rows, int first_visitor) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const RowInterval meets = row + 8 * h < own_rows ? table[row + 8 * h] : RowInterval{0, 0};
      mask_columns(s, thread(), h, {meets.first - first_visitor, meets.last - first_visitor}, 0);
      if (!kKeysOwn && threadIdx.x % 4 == 0)
        pairs += overlap(meets, first_visitor, first_visitor + kVisit);
    }
  }

  // Count the pairs of a tile that needs no mask.
  __device__ __forceinline__ void count_all(int own_rows) {
    if constexpr (!kKeysOwn) {
#pragma unroll
      for (int h = 0; h < 2; ++h)
        if (threadIdx.x % 4 == 0 && row + 8 * h < own_rows) pairs += kVisit;
    }
  }

  // Turn dP into dS.
  __device__ __forceinline__ void differences(const Storage& shared, int stage) {
#pragma unroll
    for (int i = 0; i < kVisit / 2; i += 4) {
      float2 delta;
      if constexpr (kKeysOwn) delta = of_columns(shared.notes[stage].delta, i);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if constexpr (!kKeysOwn) delta = {queries[h].delta, queries[h].delta};
        const int at = i + 2 * h;
        dp[at] = s[at] * (dp[at] - delta.x);
        dp[at + 1] = s[at + 1] * (dp[at + 1] - delta.y);
      }
    }
  }

  // Set `to` to factor * gradient, or add it. `to` is row 0 of the matrix.
  template <bool kAccumulate>
  __device__ __forceinline__ void store(float* to, const float (&gradient)[kHeadDim / 2],
                                        int own_rows, float factor) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (row + 8 * h >= own_rows) continue;
      auto* const places =
          reinterpret_cast<float2*>(to + static_cast<std::int64_t>(row + 8 * h) * kHeadDim) +
          accumulator_column(thread(), 0) / 2;
#pragma unroll
      for (int i = 2 * h; i < kHeadDim / 2; i += 4) {
        float2& place = places[accumulator_column(0, i) / 2];
        float2 sum = {factor * gradient[i], factor * gradient[i + 1]};
        if constexpr (kAccumulate) {
          const float2 before = place;
          sum.x += before.x;
          sum.y += before.y;
        }
        place = sum;
      }
    }
  }
};

}  // namespace ringscope::cuda

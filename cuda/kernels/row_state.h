// Defines what kernels compute over the lanes of a warp, the exponentials, and what all forward kernels
// keep for a query row.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "cuda/kernels/ring_step.h"

namespace ringscope::cuda {

// ---
// Reductions over neighbouring lanes of a warp, and counters of a block's work. All lanes of the
// warp take part, and all get the result of a reduction.

// Return the maximum over groups of kLanes lanes (a power of two). Ignores NaN unless all are NaN.
template <int kLanes = 32>
__device__ __forceinline__ float max_over_lanes(float value) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2)
    value = fmaxf(value, __shfl_xor_sync(~0u, value, offset));
  return value;
}

template <int kLanes = 32, class T>
__device__ __forceinline__ T sum_over_lanes(T value) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2)
    value += __shfl_xor_sync(~0u, value, offset);
  return value;
}

// Return how many of the rows [first, last) lie in `interval`.
__host__ __device__ constexpr int overlap(const RowInterval& interval, int first, int last) {
  const int begin = interval.first > first ? interval.first : first;
  const int end = interval.last < last ? interval.last : last;
  return end > begin ? end - begin : 0;
}

// Count what a block that owns the rows `own` does: the tiles of `visitor_rows` of all_rows rows by
// class, for `heads` heads, and with `table`, of its intervals, the pairs of its visits. They count for
// one head only, so blocks of other heads pass null. One whole warp calls it.
__device__ inline void count_visits(StepCounters* counters, const RowTile& own,
                                    const RowInterval* table, int visitor_rows, int all_rows,
                                    int heads = 1) {
  const int first = own.first_visitor(visitor_rows), last = own.last_visitor(visitor_rows);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  unsigned pairs = 0;
  if (table != nullptr)
#pragma unroll 1
    for (int row = lane; row < own.rows; row += 32)
      pairs += overlap(table[own.first + row], first * visitor_rows, last * visitor_rows);
  pairs = sum_over_lanes(pairs);
  if (lane != 0) return;
  const int full = overlap({tiles_for(own.unmasked.first, visitor_rows), last}, first,
                           own.unmasked.last / visitor_rows);
  const auto add = [](unsigned long long& sum, unsigned long long count) {
    if (count != 0) atomicAdd(&sum, count);
  };
  add(counters->pairs, pairs);
  add(counters->tiles_full, heads * full);
  add(counters->tiles_partial, heads * (last - first - full));
  add(counters->tiles_skipped, heads * (tiles_for(all_rows, visitor_rows) - (last - first)));
}

// ---
// Exponents in base 2: exp(x) = exp2(x log2(e)). exp2 is one instruction, and the factor log2(e)
// joins the multiplication by softmax_scale.

inline constexpr float kLog2e = 1.44269504088896340736f, kLn2 = 0.69314718055994530942f;

// Return |softmax_scale| log2(e), but at least the smallest normal number, also when softmax_scale
// is 0. So a masked score's -inf stays -inf, and a scale of 0 turns all other scores into 0.
inline float exponent_scale_of(float softmax_scale) {
  const double scale = std::fabs(static_cast<double>(softmax_scale)) * 1.44269504088896340736;
  return std::fmax(static_cast<float>(scale), std::numeric_limits<float>::min());
}

// ---
// Reads and writes what a query row carries from step to step (row_max m, row_sum l) for all
// forward kernels, and handles a row that has no keys: m = -inf, l = 0.
//
// Within a step a kernel works in f32 and in any units. At the end of the step
//
//   l = l_before * exp(m_before - m) + l_step
//
// is computed in f64, once, because l divides whole rows and its rounding shows in every value. The
// kernels for Hopper pass Real = float: their P has 8 or 11 bits, and logarithms and quotients in f64
// took 1 to 4 % of their time. What ends a pass without keys (row_kernels.h) is in f64 for all.

inline constexpr float kNoKeys = -std::numeric_limits<float>::infinity();  // row_max without keys

struct CarriedRow {
  float row_max = kNoKeys;  // natural units
  double row_sum = 0;
};

// Return the index of a query row in [batch, heads, rows_q].
__host__ __device__ constexpr std::int64_t row_index(const StepShape& shape, int batch, int head,
                                                     int row) {
  return (static_cast<std::int64_t>(batch) * shape.heads + head) * shape.rows_q + row;
}

// Return the index of a key row in [batch, heads_kv, rows_k], for a query head.
__host__ __device__ constexpr std::int64_t key_index(const StepShape& shape, int batch, int head,
                                                     int key) {
  return (static_cast<std::int64_t>(batch) * shape.heads_kv + shape.kv_head(head)) * shape.rows_k +
         key;
}

// Return the state after the steps before; at the first step, that of no keys. `row`: row_index().
__device__ inline CarriedRow carried_row(const ForwardStep& step, std::int64_t row) {
  return step.first ? CarriedRow{} : CarriedRow{step.row_max[row], step.row_sum[row]};
}

// Return what is subtracted from scores before exp. Before any key all scores are -inf, and any
// finite number gives exp(-inf) = 0, but -inf gives NaN.
__device__ inline float exponent_unit(float row_max) { return row_max == kNoKeys ? 0.0f : row_max; }

// Return the factor that converts sums relative to `old_max` to `new_max`, which is not smaller. It
// is 1 when both are -inf.
__device__ inline float rescale_factor(float old_max, float new_max) {
  return old_max == new_max ? 1.0f : expf(old_max - new_max);
}

// Return the same in f64, for sums in f64.
template <class Real = double>
__device__ inline Real sum_rescale_factor(float old_max, float new_max) {
  return old_max == new_max ? Real{1} : exp(static_cast<Real>(old_max) - new_max);
}

// Return a row's maximum in natural units, from base 2. One that has not grown keeps its bits.
__device__ inline float natural_max(const CarriedRow& before, float row_max_base2) {
  return before.row_max * kLog2e == row_max_base2 ? before.row_max : row_max_base2 * kLn2;
}

// Return the score of the sink that the rows of a query head meet in this step, or -inf.
__device__ inline float sink_of(const ForwardStep& step, int head) {
  return step.last && step.sink_logits != nullptr ? step.sink_logits[head] : kNoKeys;
}

// A row after a step: m and l, and what out_accum is multiplied by to be relative to m.
struct EndedRow {
  float row_max;
  double row_sum;
  float factor = 1;
};

// End a step for a row of a query head. row_max covers all keys so far; step_sum is this step's,
// relative to it. A sink comes after the keys.
template <class Real = double>
__device__ inline EndedRow ended_row(const ForwardStep& step, int head, const CarriedRow& before,
                                     float row_max, float step_sum) {
  double sum = step_sum;
  if (before.row_sum != 0)
    sum += before.row_sum * sum_rescale_factor<Real>(before.row_max, row_max);
  const float sink = sink_of(step, head);
  if (sink == kNoKeys) return {row_max, sum};
  const float smaller = expf(-fabsf(row_max - sink));  // beside the larger one's 1
  if (!(sink > row_max)) return {row_max, sum + smaller};
  return {sink, sum * smaller + 1, smaller};
}

// Write m and l, and lse at the last step. One thread per row calls it.
template <class Real = double>
__device__ inline void store_row(const ForwardStep& step, std::int64_t row, const EndedRow& ended) {
  step.row_max[row] = ended.row_max;
  step.row_sum[row] = ended.row_sum;
  if (step.last)
    step.lse[row] = ended.row_sum == 0
                        ? kNoKeys
                        : static_cast<float>(ended.row_max + log(static_cast<Real>(ended.row_sum)));
}

// Return the `out` value that a step stores: out_accum, or at the last step out_accum / l (0 for a
// row without keys). It divides, so that equal keys give the mean of V exactly.
__device__ inline float stored_out(const ForwardStep& step, float out_accum, const EndedRow& row) {
  if (!step.last) return out_accum;
  return row.row_sum == 0 ? 0.0f : out_accum * row.factor / static_cast<float>(row.row_sum);
}

// Likewise return a factor for out_accum, for kernels that cannot afford a division per value.
template <class Real = double>
__device__ inline float out_factor(const ForwardStep& step, const EndedRow& row) {
  if (!step.last) return 1.0f;
  return row.row_sum == 0 ? 0.0f : row.factor / static_cast<Real>(row.row_sum);
}

}  // namespace ringscope::cuda

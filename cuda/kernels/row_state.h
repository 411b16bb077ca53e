// What a query row carries from step to step (row_max m, row_sum l), read and written in one way by
// all forward kernels, and the arithmetic around a row that has no keys: m = -inf, l = 0.
//
// Within a step a kernel works in f32 and in whatever units it likes. At the end of the step
//
//   l = l_before * exp(m_before - m) + l_step
//
// is formed in f64, once: l divides whole rows, so its rounding shows in every value of a row.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "cuda/kernels/ring_step.h"

namespace ringscope::cuda {

inline constexpr float kNoKeys = -std::numeric_limits<float>::infinity();  // row_max then

struct CarriedRow {
  float row_max = kNoKeys;  // natural units
  double row_sum = 0;
};

// Index of a query row in [batch, heads, rows_q].
__host__ __device__ constexpr std::int64_t row_index(const StepShape& shape, int batch, int head,
                                                     int row) {
  return (static_cast<std::int64_t>(batch) * shape.heads + head) * shape.rows_q + row;
}

// Index of a key row in [batch, heads_kv, rows_k], for a query head.
__host__ __device__ constexpr std::int64_t key_index(const StepShape& shape, int batch, int head,
                                                     int key) {
  return (static_cast<std::int64_t>(batch) * shape.heads_kv + shape.kv_head(head)) * shape.rows_k +
         key;
}

// The state that the steps before left, or that of no keys at the first step. `row`: row_index().
__device__ inline CarriedRow carried_row(const ForwardStep& step, std::int64_t row) {
  return step.first ? CarriedRow{} : CarriedRow{step.row_max[row], step.row_sum[row]};
}

// What is subtracted from scores before exp. While there were no keys all scores are -inf, and any
// finite number gives exp(-inf) = 0 where -inf would give NaN.
__device__ inline float exponent_unit(float row_max) { return row_max == kNoKeys ? 0.0f : row_max; }

// What sums measured against `old_max` are multiplied with to be measured against `new_max`, which
// is not smaller: 1 when both are -inf.
__device__ inline float rescale_factor(float old_max, float new_max) {
  return old_max == new_max ? 1.0f : expf(old_max - new_max);
}

// l after a step: row_max of all keys so far, step_sum of this step's, measured against row_max.
__device__ inline double combined_row_sum(const CarriedRow& before, float row_max, float step_sum) {
  if (before.row_sum == 0) return step_sum;
  const double factor =
      before.row_max == row_max ? 1.0 : exp(static_cast<double>(before.row_max) - row_max);
  return before.row_sum * factor + step_sum;
}

// Writes m and l, and lse at the last step. One thread a row.
__device__ inline void store_row(const ForwardStep& step, std::int64_t row, float row_max,
                                 double row_sum) {
  step.row_max[row] = row_max;
  step.row_sum[row] = row_sum;
  if (step.last)
    step.lse[row] = row_sum == 0 ? kNoKeys : static_cast<float>(row_max + log(row_sum));
}

// The value of `out` that a step leaves: out_accum, or at the last step out_accum / l and 0 for a
// row without keys. A division, so that equal keys give the mean of V exactly.
__device__ inline float stored_out(const ForwardStep& step, float out_accum, double row_sum) {
  if (!step.last) return out_accum;
  return row_sum == 0 ? 0.0f : out_accum / static_cast<float>(row_sum);
}

// The same as a factor for out_accum, for kernels to which a division a value is too dear.
__device__ inline float out_factor(const ForwardStep& step, double row_sum) {
  if (!step.last) return 1.0f;
  return row_sum == 0 ? 0.0f : static_cast<float>(1.0 / row_sum);
}

}  // namespace ringscope::cuda

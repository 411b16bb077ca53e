// Rows of f32 in vectors of four, as 04 and 08 take them: between global memory, where a row has
// head_dim values, and tiles in shared memory, whose rows have kDim.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/kernels/ring_step.h"

namespace ringscope::cuda {

inline constexpr int kVector = 4;

__device__ __forceinline__ float4& vector_at(float* values) {
  return *reinterpret_cast<float4*>(values);
}
__device__ __forceinline__ const float4& vector_at(const float* values) {
  return *reinterpret_cast<const float4*>(values);
}

// Load columns [x, x + 4) of a row of head_dim values, as zeros beyond. Rows are aligned to vectors
// when head_dim is a multiple of four.
__device__ __forceinline__ float4 load_vector(const float* row, int x, int head_dim) {
  if (head_dim % kVector == 0) return x < head_dim ? vector_at(row + x) : make_float4(0, 0, 0, 0);
  const auto at = [&](int column) { return column < head_dim ? row[column] : 0.0f; };
  return make_float4(at(x), at(x + 1), at(x + 2), at(x + 3));
}
__device__ __forceinline__ void store_vector(float* row, int x, int head_dim, const float4& value) {
  if (head_dim % kVector == 0) {
    if (x < head_dim) vector_at(row + x) = value;
    return;
  }
  const float values[] = {value.x, value.y, value.z, value.w};
#pragma unroll
  for (int i = 0; i < kVector; ++i)
    if (x + i < head_dim) row[x + i] = values[i];
}

// Load rows first, first + 1, ... of a tensor's head; zeros outside `wanted` and beyond head_dim.
template <int kDim, int kThreads, int kRows, int kStride>
__device__ __forceinline__ void load_rows(float (&to)[kRows][kStride], const float* from, int first,
                                          const RowInterval& wanted, int head_dim) {
  constexpr int kVectors = kDim / kVector;
#pragma unroll
  for (int i = threadIdx.x; i < kRows * kVectors; i += kThreads) {
    const int row = i / kVectors, x = i % kVectors * kVector;
    const bool inside = wanted.first <= first + row && first + row < wanted.last;
    vector_at(&to[row][x]) =
        inside ? load_vector(from + static_cast<std::int64_t>(first + row) * head_dim, x, head_dim)
               : make_float4(0, 0, 0, 0);
  }
}

}  // namespace ringscope::cuda

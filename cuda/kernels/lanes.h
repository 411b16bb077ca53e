// Reductions over neighbouring lanes of a warp, and counters of a block's work. All lanes of the
// warp take part, and all get the result.
#pragma once

#include <cuda_runtime.h>

#include "cuda/kernels/ring_step.h"

namespace ringscope::cuda {

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

// Add what the lanes of a warp have counted. Pairs count for one head only, so other heads pass 0.
__device__ inline void add_pairs(StepCounters* counters, unsigned long long of_this_lane) {
  const unsigned long long pairs = sum_over_lanes(of_this_lane);
  if (threadIdx.x % 32 == 0 && pairs != 0) atomicAdd(&counters->pairs, pairs);
}

// Add tiles. One thread calls it.
__device__ inline void add_tiles(StepCounters* counters, int full, int partial, int skipped) {
  if (full != 0) atomicAdd(&counters->tiles_full, static_cast<unsigned long long>(full));
  if (partial != 0) atomicAdd(&counters->tiles_partial, static_cast<unsigned long long>(partial));
  if (skipped != 0) atomicAdd(&counters->tiles_skipped, static_cast<unsigned long long>(skipped));
}

}  // namespace ringscope::cuda

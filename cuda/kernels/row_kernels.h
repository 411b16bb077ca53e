// The small kernels around the steps: what ends a forward pass whose last step had nothing to
// attend, and what begins and ends a backward pass. All enqueue on `stream` and throw CudaError.
#pragma once

#include <cuda_runtime.h>

#include "core/base/dtype.h"
#include "core/base/math.h"
#include "cuda/kernels/ring_step.h"

namespace ringscope::cuda {

// What a step with `last` does after its keys, without any keys: out becomes out / row_sum and lse
// is written. With `first` no keys were ever seen, and the state is not read: row_max = -inf,
// row_sum = 0, out = 0, lse = -inf. Reads shape, first, row_max, row_sum and out of `step`.
void launch_finish(const ForwardStep& step, cudaStream_t stream);

// delta[row] = sum of dout[row] * out[row], for `rows` rows of head_dim values; dout in `dtype`,
// out in f32 as the forward pass left it.
void launch_delta(const void* dout, DType dtype, const float* out, float* delta, Index rows,
                  int head_dim, cudaStream_t stream);

// values[i] *= factor, for i < count.
void launch_scale(float* values, Index count, float factor, cudaStream_t stream);

// into[i] += from[i], for i < count.
void launch_add(float* into, const float* from, Index count, cudaStream_t stream);

}  // namespace ringscope::cuda

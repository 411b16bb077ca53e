// The small kernels around the steps. They end a forward pass whose last step had nothing to
// attend, and begin and end a backward pass. All enqueue on `stream` and throw CudaError.
#pragma once

#include <cuda_runtime.h>

#include "core/base/dtype.h"
#include "core/base/math.h"
#include "cuda/kernels/ring_step.h"

namespace ringscope::cuda {

// Do what a step with `last` does after its keys, without any keys: set out to out / row_sum and
// write lse. With `first` no keys were ever seen, so the state is not read: row_max = -inf, row_sum
// = 0, out = 0, lse = -inf. Reads shape, first, row_max, row_sum and out of `step`.
void launch_finish(const ForwardStep& step, cudaStream_t stream);

// Set delta[row] to the sum of dout[row] * out[row], for `rows` rows of head_dim values. dout is in
// `dtype`, out in f32 as the forward pass left it.
void launch_delta(const void* dout, DType dtype, const float* out, float* delta, Index rows,
                  int head_dim, cudaStream_t stream);

// Multiply values[i] by factor, for i < count.
void launch_scale(float* values, Index count, float factor, cudaStream_t stream);

// Add from[i] to into[i], for i < count.
void launch_add(float* into, const float* from, Index count, cudaStream_t stream);

}  // namespace ringscope::cuda

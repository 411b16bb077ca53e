// Copies the softmax state of a few query rows for the recording.
#pragma once

#include <cuda_runtime.h>

namespace ringscope::cuda {

// Rows on the device: indices into [batch, heads, rows], so they are rows of batch entry 0, head 0.
struct SampledRows {
  long long rows[3];
  int count;
};

struct RowSample {
  float row_max;
  double row_sum;
};

// Set to[i] to the state of row rows[i], for i < count. `to` may be pinned host memory; the few
// bytes then cross the bus without a separate copy. Throws CudaError.
void launch_sample_rows(const SampledRows& rows, const float* row_max, const double* row_sum,
                        RowSample* to, cudaStream_t stream);

}  // namespace ringscope::cuda

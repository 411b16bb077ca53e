#include "cuda/ring/sample_rows.h"

#include "cuda/base/launch.h"

namespace ringscope::cuda {
namespace {

__global__ void sample_rows(SampledRows sampled, const float* row_max, const double* row_sum,
                            RowSample* to) {
  const int i = threadIdx.x;
  if (i >= sampled.count) return;
  // A subscript unknown at compile time would put rows[] into local memory, so select by hand.
  const long long row = i == 0 ? sampled.rows[0] : i == 1 ? sampled.rows[1] : sampled.rows[2];
  to[i].row_max = row_max[row];
  to[i].row_sum = row_sum[row];
}

}  // namespace

void launch_sample_rows(const SampledRows& rows, const float* row_max, const double* row_sum,
                        RowSample* to, cudaStream_t stream) {
  if (rows.count == 0) return;
  launch(sample_rows, {1, 32}, stream, rows, row_max, row_sum, to);
}

}  // namespace ringscope::cuda

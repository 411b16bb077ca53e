// A kernel's first launch loads its code, which can take longer than a whole step. So every kernel
// of a run is launched once before the clock runs.
#pragma once

#include "core/attention/views.h"
#include "cuda/ring/cuda_backend.h"

namespace ringscope::cuda {

// Launches what a rank with these kernels launches, on one row, and waits for it. Throws CudaError.
void warm_up(const RankKernels& kernels, const AttentionParams& params);

}  // namespace ringscope::cuda

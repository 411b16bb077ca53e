// A kernel's first launch loads its code, which can take longer than a whole step. So every kernel
// of a run is launched once before the clock runs.
#pragma once

#include "core/attention/views.h"
#include "cuda/kernels/autotune.h"
#include "cuda/ring/cuda_backend.h"

namespace ringscope::cuda {

// Launches what a rank with these kernels launches, on one row, and waits for it. Throws CudaError.
void warm_up(const RankKernels& kernels, const AttentionParams& params);

// ---
// The kernels of a rank with the tile that is fastest for each of its steps.

// Asks `tuner` for every step's class of shapes. Throws as it.
RankKernels tuned_kernels(const ChosenKernels& kernels, const RingProblem& problem, int rank,
                          Autotuner& tuner);

}  // namespace ringscope::cuda

// Prepares the kernels of a run. A kernel's first launch loads its code, which can take longer than
// a whole step, so each kernel is launched once before the clock starts.
#pragma once

#include "core/attention/views.h"
#include "cuda/kernels/autotune.h"
#include "cuda/ring/cuda_backend.h"

namespace ringscope::cuda {

// Launch, on one row, all kernels that a rank with `kernels` launches, and wait. Throws CudaError.
void warm_up(const RankKernels& kernels, const AttentionParams& params);

// ---
// The second part chooses the tile with which a kernel is fastest at each step of a rank.

// Ask `tuner` for the shape class of every step. Throws what it throws.
RankKernels tuned_kernels(const ChosenKernels& kernels, const RingProblem& problem, int rank,
                          Autotuner& tuner);

}  // namespace ringscope::cuda

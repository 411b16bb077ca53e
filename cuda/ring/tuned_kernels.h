// The kernels of a rank with the tile that is fastest for each of its steps.
#pragma once

#include "cuda/kernels/autotune.h"
#include "cuda/ring/cuda_backend.h"

namespace ringscope::cuda {

// Asks `tuner` for every step's class of shapes. Throws as it.
RankKernels tuned_kernels(const ChosenKernels& kernels, const RingProblem& problem, int rank,
                          Autotuner& tuner);

}  // namespace ringscope::cuda

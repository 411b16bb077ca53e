// Launches kernel 07 on a chosen number of blocks. Fewer blocks than multiprocessors leave some of
// these to other kernels, such as those that move K and V between GPUs.
#pragma once

#include "core/base/dtype.h"
#include "cuda/kernels/ring_step.h"

namespace ringscope::cuda {

// Like ForwardKernel::launch, on at most `blocks` blocks (>= 1).
void launch_hopper_overlap(const ForwardStep& step, DType dtype, int tile, int blocks,
                           cudaStream_t stream);

}  // namespace ringscope::cuda

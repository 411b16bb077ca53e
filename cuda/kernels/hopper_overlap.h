// Step 7 with a chosen number of blocks: fewer than multiprocessors leaves some of them to others,
// such as the kernels that move K and V between GPUs.
#pragma once

#include "core/base/dtype.h"
#include "cuda/kernels/ring_step.h"

namespace ringscope::cuda {

// As ForwardKernel::launch, on at most `blocks` blocks (>= 1).
void launch_hopper_overlap(const ForwardStep& step, DType dtype, int tile, int blocks,
                           cudaStream_t stream);

}  // namespace ringscope::cuda

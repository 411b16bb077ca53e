// Room for transfers beside a kernel that fills the GPU. NCCL's kernels take whole multiprocessors;
// a persistent grid (07) has one block on each, and stays until all work is done, so a transfer that
// finds none free waits for the whole step. Leaving some free costs that share of the kernel's speed.
// Other kernels let go of multiprocessors all the time and need no margin.
#pragma once

#include "cuda/kernels/kernel_table.h"

namespace ringscope::cuda {

// `kernel`, on so many multiprocessors fewer (at least one remains) when its grid is persistent. One
// margin a process: that of the last call counts for all.
const ForwardKernel& with_sm_margin(const ForwardKernel& kernel, int multiprocessors);

}  // namespace ringscope::cuda

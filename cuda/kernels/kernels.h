// Declares the table entries of this folder's kernels, and a launch of kernel 07 on fewer blocks.
#pragma once

#include "core/base/dtype.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/kernels/ring_step.h"

namespace ringscope::cuda {

// ---
// The table entries of the kernels, one per file of this folder. kernel_table.cpp orders them.

const ForwardKernel& naive_kernel();                   // 01
const ForwardKernel& online_softmax_kernel();          // 02
const ForwardKernel& shared_tiles_kernel();            // 03
const ForwardKernel& register_tiles_kernel();          // 04
const ForwardKernel& tensor_cores_kernel();            // 05
const ForwardKernel& hopper_kernel();                  // 06
const ForwardKernel& hopper_overlap_kernel();          // 07
const BackwardKernel& backward_tiled_kernel();         // 08
const BackwardKernel& backward_tensor_cores_kernel();  // 09
const BackwardKernel& backward_hopper_kernel();        // 10

// ---
// Launches kernel 07 on a chosen number of blocks. Fewer blocks than multiprocessors leave some of
// these to other kernels, such as those that move K and V between GPUs.

// Like ForwardKernel::launch, on at most `blocks` blocks (>= 1).
void launch_hopper_overlap(const ForwardStep& step, DType dtype, int tile, int blocks,
                           cudaStream_t stream);

}  // namespace ringscope::cuda

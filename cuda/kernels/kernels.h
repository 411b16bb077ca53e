// The table entries of the kernels, one per file of this folder. kernel_table.cpp orders them.
#pragma once

#include "cuda/kernels/kernel_table.h"

namespace ringscope::cuda {

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

}  // namespace ringscope::cuda

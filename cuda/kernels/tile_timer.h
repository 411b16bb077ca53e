// How long a compiled tile takes, on the device, on a problem made up for the purpose.
#pragma once

#include "cuda/kernels/kernel_table.h"
#include "cuda/kernels/shape_class.h"

namespace ringscope::cuda {

// Seconds of one step with tiles[tile] on the class's representative: the median of a few, by CUDA
// events. A forward step carries its state in and out, as most steps of a ring do. Takes device
// memory for the time of the call. Throws CudaError; the device is usable afterwards when memory
// was all that was short.
double time_tile(const ForwardKernel& kernel, const ShapeClass& shape_class, int tile);
double time_tile(const BackwardKernel& kernel, const ShapeClass& shape_class, int tile);

}  // namespace ringscope::cuda

// Which kernels of the ladder a run uses.
#pragma once

#include "core/base/dtype.h"
#include "core/base/math.h"
#include "cuda/kernels/kernel_table.h"

namespace ringscope::cuda {

// `backward` is null for a run without one.
struct ChosenKernels {
  const ForwardKernel* forward = nullptr;
  const BackwardKernel* backward = nullptr;
};

// What somebody wants: kernels by their number in the table, 0 for the best.
struct KernelWish {
  int forward = 0;
  int backward = 0;
};

// The best kernel is the highest on the ladder of those that take the problem and have passed on a
// GPU (kernel_table.h, verified), or of all that take it while none has. Throws InputError, one
// line that names dtype, head_dim and device, and what to use instead: when no kernel takes them,
// or the wished one does not, or there is no such number.
ChosenKernels choose_kernels(const KernelWish& wish, int architecture, DType dtype, Index head_dim,
                             bool backward);

}  // namespace ringscope::cuda

// Chooses the kernels of the ladder that a run uses.
#pragma once

#include "core/base/dtype.h"
#include "core/base/math.h"
#include "cuda/kernels/kernel_table.h"

namespace ringscope::cuda {

// `backward` is null for a run without a backward pass.
struct ChosenKernels {
  const ForwardKernel* forward = nullptr;
  const BackwardKernel* backward = nullptr;
};

// The wished kernels by their number in the table; 0 stands for the best.
struct KernelWish {
  int forward = 0;
  int backward = 0;
};

// Return the wished kernels. The best kernel is the highest on the ladder of those that take the
// problem and have passed on a GPU (kernel_table.h, verified), or of all that take it when none has
// passed. Throws InputError when no kernel takes the problem, the wished one does not, or its
// number does not exist. The error's one line names dtype, head_dim, device and an alternative.
ChosenKernels choose_kernels(const KernelWish& wish, int architecture, DType dtype, Index head_dim,
                             bool backward);

}  // namespace ringscope::cuda

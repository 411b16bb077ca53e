// Chooses the kernels of the ladder that a run uses, with the tiles that fit the device, and readies
// them.
#pragma once

#include "core/base/dtype.h"
#include "core/base/math.h"
#include "core/ring/problem.h"
#include "cuda/base/device_info.h"
#include "cuda/kernels/kernel_table.h"

namespace ringscope::cuda {

// `backward` is null for a run without a backward pass. A tile is an index into the kernel's tiles.
struct ChosenKernels {
  const Kernel* forward = nullptr;
  const Kernel* backward = nullptr;
  int forward_tile = 0, backward_tile = 0;
  int stamped = 0;  // multiprocessors on which kernels stamp what they do (stamps.h)

  // Return the number of passes that stamp: none, forward, or both.
  int stamped_passes() const {
    if (stamped == 0) return 0;
    return backward != nullptr && backward->launch_stamped_backward != nullptr ? 2 : 1;
  }
};

// The wished kernels by their number in the table, 0 for the best, and by their rung, such as the b of
// 07b, or 0.
struct KernelWish {
  int forward = 0;
  int backward = 0;
  int stamped = 0;  // 0 to kMostMultiprocessors
  char forward_rung = 0, backward_rung = 0;
};

// Return the wished kernels. The best kernel is the highest on the ladder of those that take the
// problem and have passed on a GPU (kernel_table.h, verified), or of all that take it when none has
// passed. Throws InputError when no kernel takes the problem, the wished one does not, or its
// number does not exist. The error's one line names dtype, head_dim, device and an alternative.
ChosenKernels choose_kernels(const KernelWish& wish, const DeviceInfo& device, DType dtype,
                             HeadDims dims, bool backward);

// Return the sizes of a step of so many local rows.
StepShape shape_of(const AttentionParams& params, Index rows_q, Index rows_k);

// Launch, on one row, all kernels that a rank launches, and wait. A kernel's first
// launch loads its code, which can take longer than a whole step. Throws CudaError.
void warm_up(const ChosenKernels& kernels, const AttentionParams& params);

}  // namespace ringscope::cuda

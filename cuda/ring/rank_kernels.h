// Chooses the kernels of the ladder that a run uses and, for each step of a rank, the tile with
// which a kernel is fastest; and readies them.
#pragma once

#include <vector>

#include "core/base/dtype.h"
#include "core/base/math.h"
#include "core/ring/problem.h"
#include "cuda/kernels/autotune.h"
#include "cuda/kernels/kernel_table.h"

namespace ringscope::cuda {

// `backward` is null for a run without a backward pass.
struct ChosenKernels {
  const Kernel* forward = nullptr;
  const Kernel* backward = nullptr;
  int stamped = 0;  // multiprocessors on which forward stamps what it does (stamps.h)
};

// The wished kernels by their number in the table; 0 stands for the best.
struct KernelWish {
  int forward = 0;
  int backward = 0;
  int stamped = 0;  // 0 to kMostMultiprocessors
};

// Return the wished kernels. The best kernel is the highest on the ladder of those that take the
// problem and have passed on a GPU (kernel_table.h, verified), or of all that take it when none has
// passed. Throws InputError when no kernel takes the problem, the wished one does not, or its
// number does not exist. The error's one line names dtype, head_dim, device and an alternative.
ChosenKernels choose_kernels(const KernelWish& wish, int architecture, DType dtype, Index head_dim,
                             bool backward);

// The kernels that a rank runs and, for each step of a pass, which of the kernel's tiles.
struct RankKernels {
  ChosenKernels kernels;
  std::vector<int> forward_tiles, backward_tiles;
};

// Ask `tuner` for the tiles of every step, for the largest block that `rank` attends at it. Throws
// what it throws.
RankKernels tuned_kernels(const ChosenKernels& kernels, const Problem& problem, int rank,
                          Autotuner& tuner);

// Return the sizes of a step of so many local rows.
StepShape shape_of(const AttentionParams& params, Index rows_q, Index rows_k);

// Launch, on one row, all kernels that a rank with `kernels` launches, and wait. A kernel's first
// launch loads its code, which can take longer than a whole step. Throws CudaError.
void warm_up(const RankKernels& kernels, const AttentionParams& params);

}  // namespace ringscope::cuda

// What launch functions have in common: refusing what would otherwise be wrong numbers, and choosing
// the compiled instance for a head_dim.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

#include "core/base/dtype.h"
#include "cuda/kernels/kernel_table.h"

namespace ringscope::cuda {

// Throw InputError when `kernel` does not take dtype, tile or shape.
void check_forward_launch(const ForwardKernel& kernel, const ForwardStep& step, DType dtype,
                          int tile);
void check_backward_launch(const BackwardKernel& kernel, const BackwardStep& step, DType dtype,
                           int tile);

// Throws InputError when a block of tile `tile` needs more shared memory than the current device
// has.
void check_shared_memory(const ForwardKernel& kernel, int tile, std::size_t bytes);

// Calls f(std::integral_constant<int, N>) with the smallest N of 64, 128, 256 that head_dim, at
// most 256, fits into.
template <class F>
void visit_head_dim(int head_dim, F&& f) {
  if (head_dim <= 64)
    f(std::integral_constant<int, 64>{});
  else if (head_dim <= 128)
    f(std::integral_constant<int, 128>{});
  else
    f(std::integral_constant<int, 256>{});
}

}  // namespace ringscope::cuda

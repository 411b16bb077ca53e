// What launch functions have in common: refusing what would otherwise be wrong numbers, and choosing
// the compiled instance for a head_dim.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>
#include <vector>

#include "core/base/buffer.h"
#include "core/base/dtype.h"
#include "core/base/random.h"
#include "cuda/base/device_memory.h"
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

// ---
// One ring step on made-up numbers, in device memory: what kernels are timed on. Correctness is
// tested elsewhere; here values only have to look like real ones (zeros would run faster).

class StepProblem {
 public:
  // allowed_keys: one interval a row of Q, ends never decreasing. Throws CudaError.
  StepProblem(const StepShape& shape, DType dtype, KernelPass pass,
              const std::vector<RowInterval>& allowed_keys);

  // Another region of the same problem.
  void set_allowed_keys(const std::vector<RowInterval>& allowed_keys);

  // A step of a ring; with first = last = false one that reads and writes its state.
  ForwardStep forward(bool first, bool last);
  BackwardStep backward();

  // Of all batch entries and heads.
  double pairs() const { return pairs_; }
  // 4 x pairs x head_dim forward, 10 x backward: products that the formulas need, not those done.
  double flops(KernelPass pass) const;

  // Fills what steps only write with NaN; `state_too`: out as well, for a first forward step.
  void poison(bool state_too);
  // Whether any value that a last forward step or a backward step wrote is NaN.
  bool has_nan();

 private:
  template <class T>
  Buffer<T> filled(Index count, T value);
  Buffer<std::byte> random_values(Index count, RandomTensor tensor);
  bool any_nan(Buffer<float>& values);

  StepShape shape_;
  DType dtype_;
  KernelPass pass_;
  double pairs_ = 0;
  MemoryMeter meter_{device_memory()};
  Buffer<std::byte> q_, k_, v_, dout_;
  Buffer<RowInterval> allowed_keys_, allowed_queries_;
  Buffer<float> row_max_, out_, lse_, delta_, dq_, dk_, dv_;
  Buffer<double> row_sum_;
  Buffer<StepCounters> counters_;
};

}  // namespace ringscope::cuda

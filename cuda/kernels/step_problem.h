// Helpers of launch functions: they refuse what would otherwise give wrong numbers, and choose the
// compiled instance for a head_dim.
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

// Throw InputError when a block of tile `tile` needs more shared memory than the current device
// has.
void check_shared_memory(const ForwardKernel& kernel, int tile, std::size_t bytes);

// Call f(std::integral_constant<int, N>) with the smallest N of 64, 128, 256 that holds head_dim,
// which is at most 256.
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
// StepProblem is one ring step on made-up numbers in device memory, for timing kernels. Other tests
// check correctness; here values only have to look real (zeros would run faster).

class StepProblem {
 public:
  // allowed_keys has one interval per row of Q, whose ends never decrease. Throws CudaError.
  StepProblem(const StepShape& shape, DType dtype, KernelPass pass,
              const std::vector<RowInterval>& allowed_keys);

  // Replace the region of the problem.
  void set_allowed_keys(const std::vector<RowInterval>& allowed_keys);

  // Return a step of a ring. With first = last = false it reads and writes its state.
  ForwardStep forward(bool first, bool last);
  BackwardStep backward();

  // Return the pairs of all batch entries and heads.
  double pairs() const { return pairs_; }
  // Return 4 (backward 10) x pairs x head_dim: the products that the formulas need, not those done.
  double flops(KernelPass pass) const;

  // Fill the outputs of steps with NaN, with `state_too` also out, for a first forward step.
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

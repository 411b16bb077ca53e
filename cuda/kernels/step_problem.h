// One ring step on made-up numbers, in device memory: what kernels are timed on. Correctness is
// tested elsewhere; here values only have to look like real ones (zeros would run faster).
#pragma once

#include <vector>

#include "core/base/buffer.h"
#include "core/base/dtype.h"
#include "core/base/random.h"
#include "cuda/base/device_memory.h"
#include "cuda/kernels/kernel_table.h"

namespace ringscope::cuda {

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

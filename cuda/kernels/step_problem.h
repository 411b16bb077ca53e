// StepProblem is one ring step on made-up numbers in device memory, for timing kernels and for
// their first launch. Other tests check correctness; here values only have to look real (zeros
// would run faster).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

#include "core/base/buffer.h"
#include "core/base/dtype.h"
#include "core/base/random.h"
#include "cuda/base/device_memory.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/kernels/row_kernels.h"

namespace ringscope::cuda {

class StepProblem {
 public:
  // allowed_keys has one interval per row of Q, whose ends never decrease. Throws CudaError.
  StepProblem(const StepShape& shape, DType dtype, KernelPass pass,
              const std::vector<RowInterval>& allowed_keys);

  // Return a step of a ring. With first = last = false it reads and writes its state.
  ForwardStep forward(bool first, bool last);
  BackwardStep backward(bool first);
  // Enqueue a step of the problem's pass by `kernel`. Only a forward step has a last.
  void launch(const Kernel& kernel, int tile, bool first, bool last, cudaStream_t stream);

  // Enqueue a whole backward pass as a library's: delta and the step.
  void launch_whole_backward(const Kernel& kernel, int tile, cudaStream_t stream);

  // Let kernels for Hopper store out in 16 bits in steps that are first and last, as libraries do.
  void round_out() { out_16_ = Buffer<std::byte>(&meter_, q_.bytes()); }

  // Return the pairs of all batch entries and heads.
  double pairs() const { return pairs_; }
  // Return those of the products that the formulas need, not of those done: Q K^T and P V, or backward
  // three as wide as K and two as wide as V.
  double flops() const;

  // Fill the outputs of steps with NaN. Only a first step may follow.
  void poison();
  // Return whether any value that a last forward step or a backward step wrote is NaN.
  bool has_nan();
  // Return what such a step wrote: out and lse, or dq, dk and dv.
  std::vector<std::vector<float>> outputs();

  // Keep a copy of what such a step wrote, on the device.
  void keep();
  // Compare it, tensor by tensor, with what another step has written since.
  std::vector<Comparison> compare_kept() const;

 private:
  template <class T>
  Buffer<T> filled(Index count, T value);
  Buffer<std::byte> random_values(Index count, RandomTensor tensor);
  std::vector<const Buffer<float>*> written() const;  // by a step

  StepShape shape_;
  DType dtype_;
  KernelPass pass_;
  double pairs_ = 0;
  MemoryMeter meter_{device_memory()};
  Buffer<std::byte> q_, k_, v_, dout_, out_16_, workspace_;
  Buffer<RowInterval> allowed_keys_, allowed_queries_;
  Buffer<float> row_max_, out_, lse_, delta_, dq_, dk_, dv_;
  Buffer<double> row_sum_;
  Buffer<StepCounters> counters_;
  std::vector<Buffer<float>> kept_;
};

}  // namespace ringscope::cuda

// A forward pass of a ring of virtual ranks on one GPU in one launch (step 12): the memory of all ranks,
// what is refused, and the same steps launched one by one, which it is compared with. It records nothing,
// and is no Engine: there is no loop on the host.
#pragma once

#include <cuda_runtime.h>

#include <vector>

#include "core/base/buffer.h"
#include "core/ring/problem.h"
#include "core/threads/rows.h"
#include "cuda/base/device_memory.h"
#include "cuda/kernels/fused_ring.h"
#include "cuda/kernels/kernel_table.h"

namespace ringscope::cuda {

class FusedRun {
 public:
  // Allocate on the current device, which gives each rank `blocks` blocks, or an equal share of its
  // multiprocessors if that is 0. Throws InputError where step 12 does not take the problem, and CudaError.
  explicit FusedRun(const Problem& config, int blocks = 0);
  FusedRun(FusedRun&&) = delete;

  const FusedRing& ring() const { return ring_; }
  // Bring in the rows of all ranks, of Q, K and V.
  void take(RowSource& rows);
  // Fill what a pass writes with NaN.
  void poison();
  // Enqueue the pass. It overwrites no input, so it can be repeated.
  void launch(cudaStream_t stream, decltype(launch_fused_ring)* by = launch_fused_ring);
  // Enqueue it step by step, as launches of a kernel that carries the state. No block moves: each launch
  // reads its owner's own. Steps without pairs are launched, too.
  void launch_steps(const Kernel& kernel, cudaStream_t stream) const;

  // Return out and lse of a pass that has ended.
  AttentionOutputs outputs() const;
  // Return what it counted at each ring step of each rank, rank by rank.
  std::vector<StepCounters> counted() const;
  // Return the pairs of all batch entries, heads, ranks and steps.
  double pairs() const;

 private:
  // The memory of one rank.
  struct Memory {
    Buffer<std::byte> q, k, v;
    Buffer<RowInterval> allowed_keys;
    Buffer<float> row_max, out, lse;
    Buffer<double> row_sum;
  };

  void clear(cudaStream_t stream) const;

  Problem config_;
  RingProblem problem_;  // points into config_
  FusedRing ring_;
  MemoryMeter meter_{device_memory()};
  std::vector<Memory> ranks_;
  mutable Buffer<int> flags_;
  mutable Buffer<StepCounters> counters_;
  Buffer<float> sinks_;
};

}  // namespace ringscope::cuda

// Prepares a run over NCCL, and leaves room for transfers beside a kernel that fills the GPU.
// NCCL's kernels take whole multiprocessors. A persistent grid (07) occupies each one until all
// work is done, so a transfer that finds none free waits for the whole step. A margin costs its
// share of the kernel's speed. Other kernels free multiprocessors all the time and need no margin.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/ring/problem.h"
#include "cuda/base/device_info.h"
#include "cuda/kernels/autotune.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/nccl/nccl_world.h"
#include "cuda/nccl/placement.h"
#include "cuda/nccl/run_on_nccl.h"
#include "cuda/ring/activity.h"

namespace ringscope::cuda {

// Return `kernel`, on `multiprocessors` fewer (at least one remains) if its grid is persistent. A
// process has one margin: the last call's counts for all.
const ForwardKernel& with_sm_margin(const ForwardKernel& kernel, int multiprocessors);

// ---
// The rest runs before the ranks start, whether they are threads or processes.

// Return this process's machine and GPUs. When no GPU can be used, RankGpus::gpus is empty and
// `why_not` says why.
RankGpus visible_gpus(std::string& why_not);

// Kernels and tuner for the ranks of this process, after a check of their GPUs' memory.
class NcclSetup {
 public:
  // Make the checks that run_on_nccl lists. Throws InputError, RunError.
  NcclSetup(const Problem& config, const std::vector<NcclSeat>& seats, const NcclOptions& options);

  const ChosenKernels& kernels() const { return kernels_; }
  Autotuner& tuner() { return *tuner_; }
  ActivityLog* activities() { return activities_.get(); }

 private:
  ChosenKernels kernels_;
  std::unique_ptr<Autotuner> tuner_;
  std::unique_ptr<ActivityLog> activities_;
};

}  // namespace ringscope::cuda

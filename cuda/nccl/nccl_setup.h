// Room for transfers beside a kernel that fills the GPU. NCCL's kernels take whole multiprocessors;
// a persistent grid (07) has one block on each, and stays until all work is done, so a transfer that
// finds none free waits for the whole step. Leaving some free costs that share of the kernel's speed.
// Other kernels let go of multiprocessors all the time and need no margin.
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

// `kernel`, on so many multiprocessors fewer (at least one remains) when its grid is persistent. One
// margin a process: that of the last call counts for all.
const ForwardKernel& with_sm_margin(const ForwardKernel& kernel, int multiprocessors);

// ---
// What a run over NCCL does before its ranks start, whether they are threads or processes.

// This process's machine and GPUs; RankGpus::gpus is empty where there is none that can be used, and
// `why_not` says why.
RankGpus visible_gpus(std::string& why_not);

// Kernels, tuner and memory for the ranks of this process, on their GPUs.
class NcclSetup {
 public:
  // Checks as run_on_nccl says. Throws InputError, RunError.
  NcclSetup(const RingConfig& config, const std::vector<NcclSeat>& seats,
            const NcclOptions& options);

  const ChosenKernels& kernels() const { return kernels_; }
  Autotuner& tuner() { return *tuner_; }
  ActivityLog* activities() { return activities_.get(); }

 private:
  ChosenKernels kernels_;
  std::unique_ptr<Autotuner> tuner_;
  std::unique_ptr<ActivityLog> activities_;
};

}  // namespace ringscope::cuda

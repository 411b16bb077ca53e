// What a run over NCCL does before its ranks start, whether they are threads or processes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/ring/config.h"
#include "cuda/base/device_info.h"
#include "cuda/kernels/autotune.h"
#include "cuda/nccl/nccl_world.h"
#include "cuda/nccl/placement.h"
#include "cuda/nccl/run_on_nccl.h"
#include "cuda/ring/activity.h"

namespace ringscope::cuda {

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

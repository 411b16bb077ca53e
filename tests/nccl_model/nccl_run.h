// Runs of the ring over NCCL on the host model: its ranks, connections and streams are real, NCCL
// is cuda/emulator's stand-in. Kernels are those that the model runs fast.
#pragma once

#include "cuda/nccl/run_on_nccl.h"
#include "tests/cuda/one_gpu_ring.h"
#include "tests/cuda_emulator/model_run.h"

namespace ringscope::cuda {

inline NcclOptions quick_options() {
  NcclOptions options;
  options.kernels = {3, 8};
  return options;
}

inline RingRun run_nccl(const RingReference& problem, const Problem& config) {
  return run_on_nccl(config, problem.inputs, {}, quick_options());
}

using NcclTest = ModelTest;

}  // namespace ringscope::cuda

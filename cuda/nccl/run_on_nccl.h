// A whole attention problem on the GPUs of this machine, a thread and a GPU a rank, NCCL between
// them: what `ringscope run --backend nccl` calls. (A process a rank: run_on_nccl_processes.h.)
//
// This has run on no GPU yet: only on the host model, against cuda/model's stand-in for NCCL.
#pragma once

#include "core/run/run.h"
#include "cuda/ring/choose_kernels.h"

namespace ringscope::cuda {

struct NcclOptions {
  KernelWish kernels;
  // A transfer's kernel takes so many multiprocessors at most, and a persistent kernel leaves them
  // free for it (nccl_setup.h).
  int max_ctas = 4;
  // The memory of hops is registered with NCCL, where NCCL can use that.
  bool register_buffers = true;
  // Kernels' times from CUPTI instead of events (activity.h). RunError when it is not there.
  bool activity_records = false;
};

// As run_on_threads. More ranks than GPUs: placement.h. Before anything is started: InputError when
// no kernel takes the problem, RunError when there is no GPU, no NCCL, or too little memory. A rank
// that fails, and an error of CUDA or NCCL, end all ranks: every communicator is aborted, RunFailure
// names rank and step. Send and receive slices of the recording are the transfers' (nccl_communicator.h).
RingRun run_on_nccl(const RingConfig& config, const AttentionInputs& inputs,
                    const Progress& progress = {}, const NcclOptions& options = {});

}  // namespace ringscope::cuda

// Runs whole attention problems over NCCL, with a thread or with a process per rank. Neither has
// run on a GPU yet, only on the host model with cuda/model's stand-in for NCCL.
#pragma once

#include "core/mpi/run_on_mpi.h"
#include "core/run/run.h"
#include "cuda/ring/rank_kernels.h"

namespace ringscope::cuda {

struct NcclOptions {
  KernelWish kernels;
  // The most multiprocessors that a transfer's kernel takes. A persistent kernel leaves them free
  // for it (nccl_engine.h).
  int max_ctas = 4;
  // Register the memory of hops with NCCL, where NCCL supports it.
  bool register_buffers = true;
  // Take kernel times from CUPTI instead of events (activity.h). RunError when CUPTI is missing.
  bool activity_records = false;
};

// Run like run_on_threads, a thread and a GPU per rank of this machine; placement.h handles more
// ranks than GPUs. Before that, throws InputError if no kernel takes the problem, RunError if a
// GPU, NCCL or memory is missing. A failed rank or an error of CUDA or NCCL aborts every
// communicator, which ends all ranks. RunFailure names rank and step. Recorded send and recv slices
// are the transfers' (nccl_communicator.h).
RingRun run_on_nccl(const Problem& config, const AttentionInputs& inputs,
                    const Progress& progress = {}, const NcclOptions& options = {});

// Run like run_on_mpi, a process per rank that mpirun has started, on one machine or several, on
// the GPU that placement.h gives this rank. The lifeline shares NCCL's id and ends all processes
// when one fails. A problem on any rank (no GPU, no NCCL, another version of it, too little memory)
// is a RunError on all ranks, naming that rank.
RingRun run_on_nccl_processes(MpiSession& session, const Problem& config,
                              const ProcessInputs& inputs, bool gather_outputs,
                              const Progress& progress = {}, const NcclOptions& options = {});

}  // namespace ringscope::cuda

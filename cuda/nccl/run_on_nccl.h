// Runs whole problems over NCCL, with a thread or with a process per rank. Neither has run on a GPU
// yet, only on the host model.
#pragma once

#include "core/mpi/run_on_mpi.h"
#include "core/run/run.h"
#include "cuda/ring/choose_kernels.h"

namespace ringscope::cuda {

// ---
// Runs a whole attention problem on the GPUs of this machine, a thread and a GPU per rank, over
// NCCL, for `ringscope run --backend nccl`. (run_on_nccl_processes.h uses a process per rank.)
//
// This has not run on a GPU yet, only on the host model with cuda/model's stand-in for NCCL.

struct NcclOptions {
  KernelWish kernels;
  // The most multiprocessors that a transfer's kernel takes. A persistent kernel leaves them free
  // for it (nccl_setup.h).
  int max_ctas = 4;
  // Register the memory of hops with NCCL, where NCCL supports it.
  bool register_buffers = true;
  // Take kernel times from CUPTI instead of events (activity.h). RunError when CUPTI is missing.
  bool activity_records = false;
};

// Run like run_on_threads; placement.h handles more ranks than GPUs. Before that, throws InputError
// if no kernel takes the problem, RunError if a GPU, NCCL or memory is missing. A failed rank or an
// error of CUDA or NCCL aborts every communicator, which ends all ranks. RunFailure names rank and
// step. Recorded send and recv slices are the transfers' (nccl_communicator.h).
RingRun run_on_nccl(const Problem& config, const AttentionInputs& inputs,
                    const Progress& progress = {}, const NcclOptions& options = {});

// ---
// Runs a whole attention problem with a process per rank, on one machine or several. mpirun starts
// the processes. The lifeline shares NCCL's id and ends all processes when one fails. NCCL moves
// the blocks. (run_on_nccl.h uses a thread per rank, without MPI.)
//
// This has not run on a GPU yet.

// Run like run_on_mpi, on the GPU that placement.h gives this rank. A problem on any rank (no GPU,
// no NCCL, another version of it, too little memory) is a RunError on all ranks, naming that rank.
RingRun run_on_nccl_processes(MpiSession& session, const Problem& config,
                              const ProcessInputs& inputs, bool gather_outputs,
                              const Progress& progress = {}, const NcclOptions& options = {});

}  // namespace ringscope::cuda

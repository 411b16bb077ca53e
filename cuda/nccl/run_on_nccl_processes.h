// A whole attention problem with a process a rank, on one machine or several: mpirun starts the
// processes, the lifeline hands NCCL's id round and ends all of them when one fails, NCCL moves the
// blocks. (A thread a rank, without MPI: run_on_nccl.h.)
//
// This has run on no GPU yet.
#pragma once

#include "core/mpi/run_on_mpi.h"
#include "cuda/nccl/run_on_nccl.h"

namespace ringscope::cuda {

// As run_on_mpi, with the GPU that placement.h gives this rank. What is wrong on any rank (no GPU, no
// NCCL, another version of it, too little memory) is a RunError on all, naming the rank.
RingRun run_on_nccl_processes(MpiSession& session, const RingConfig& config,
                              const ProcessInputs& inputs, bool gather_outputs,
                              const Progress& progress = {}, const NcclOptions& options = {});

}  // namespace ringscope::cuda

// Runs a whole attention problem with a process per rank, on one machine or several. mpirun starts
// the processes. The lifeline shares NCCL's id and ends all processes when one fails. NCCL moves
// the blocks. (run_on_nccl.h uses a thread per rank, without MPI.)
//
// This has not run on a GPU yet.
#pragma once

#include "core/mpi/run_on_mpi.h"
#include "cuda/nccl/run_on_nccl.h"

namespace ringscope::cuda {

// Run like run_on_mpi, on the GPU that placement.h gives this rank. A problem on any rank (no GPU,
// no NCCL, another version of it, too little memory) is a RunError on all ranks, naming that rank.
RingRun run_on_nccl_processes(MpiSession& session, const Problem& config,
                              const ProcessInputs& inputs, bool gather_outputs,
                              const Progress& progress = {}, const NcclOptions& options = {});

}  // namespace ringscope::cuda

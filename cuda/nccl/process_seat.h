// Readies the processes of a run, one per rank, before they connect. Over the lifeline, they tell
// each other what they have, learn which GPU each gets, and share NCCL's id.
#pragma once

#include "core/process/lifeline.h"
#include "cuda/nccl/nccl_world.h"
#include "cuda/nccl/placement.h"

namespace ringscope::cuda {

struct ProcessSeat {
  NcclSeat seat;
  Placement placement;  // of all ranks
};

// Choose the rank's GPU, make it the thread's, and set the environment that NCCL needs. Every rank
// calls it before anything else uses a GPU. Throws RunError naming a rank that has no GPU, no NCCL,
// or a different NCCL from rank 0.
ProcessSeat take_process_seat(Lifeline& line);

// Return rank 0's id. Every rank calls it. Throws RunError.
ncclUniqueId share_nccl_id(Lifeline& line);

// Return a function for the NcclWorld of one process that throws the run's failure, if there is
// one. `line` must outlive it.
GiveUp failure_of(Lifeline& line);

}  // namespace ringscope::cuda

// What the processes of a run do before they connect, a process a rank: tell each other what they have,
// see which GPU each gets, and hand NCCL's id round, all by the lifeline.
#pragma once

#include "core/process/lifeline.h"
#include "cuda/nccl/nccl_world.h"
#include "cuda/nccl/placement.h"

namespace ringscope::cuda {

struct ProcessSeat {
  NcclSeat seat;
  Placement placement;  // of all ranks
};

// Called by every rank, before anything else uses a GPU; makes the rank's GPU the thread's, and sets
// what NCCL needs in the environment. Throws RunError naming a rank that has no GPU or no NCCL, or
// another one than rank 0.
ProcessSeat take_process_seat(Lifeline& line);

// Called by every rank: rank 0's. Throws RunError.
ncclUniqueId share_nccl_id(Lifeline& line);

// For an NcclWorld of one process of many: throws the run's failure, when there is one. `line` must
// outlive it.
GiveUp failure_of(Lifeline& line);

}  // namespace ringscope::cuda

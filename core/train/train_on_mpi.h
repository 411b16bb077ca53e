// A training run with a process a rank. A rank is what it is on threads; here it is one of an MPI
// job: its blocks move by MPI, its pulse is watched over the lifeline, and a failure anywhere ends
// all.
#pragma once

#include <string>

#include "core/mpi/mpi_session.h"
#include "core/train/training_run.h"

namespace ringscope {

// Runs rank session.rank() of `plan`, which is valid, the same on all ranks, and of the session's
// world_size. On rank 0 the result is that of run_training_on_threads; on the others it is empty.
// Throws InputError for a text as train_on_threads does, on all ranks alike; RunError naming the
// rank, the same on every rank, when any of them fails or is silent for the session's timeout; then
// no MPI function may be called any more.
FinishedTraining run_training_on_mpi(MpiSession& session, const TrainingPlan& plan,
                                     const std::string& text, const AfterStep& after_step = {});

}  // namespace ringscope

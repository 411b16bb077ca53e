// A training run with one MPI process per rank. The rank itself is the same as on threads. Here its
// blocks move by MPI, the lifeline watches its pulse, and a failure anywhere ends all ranks.
#pragma once

#include <string>

#include "core/mpi/mpi_session.h"
#include "core/train/training_run.h"

namespace ringscope {

// Run rank session.rank() of `plan`, which is valid, the same on all ranks, and of the session's
// world_size. Return the result of run_training_on_threads() on rank 0, and an empty one elsewhere.
// Throw InputError for a text as train_on_threads() does, on all ranks alike. Throw RunError naming
// the rank, the same on every rank, when any rank fails or is silent for the session's timeout;
// then no MPI function may be called any more.
FinishedTraining run_training_on_mpi(MpiSession& session, const TrainingPlan& plan,
                                     const std::string& text, const AfterStep& after_step = {});

}  // namespace ringscope

// A run with one process per rank: scatter or generate the rows, run the ring, and gather the
// requested outputs at rank 0, on one clock.
#pragma once

#include "core/processes/mpi/mpi_session.h"
#include "core/threads/engine.h"
#include "core/threads/rows.h"
#include "core/threads/run.h"

namespace ringscope {

// Where a process's rows come from: every rank asks a source of its own, or, if they are scattered (the
// same on all ranks), rank 0 sends them to the others, where `rows` is null.
struct ProcessInputs {
  RowSource* rows = nullptr;
  bool is_scattered = false;
};

// Run rank session.rank() of `config` (whose world_size is the session's) with what `engine`
// provides for it. Return the result of run_ranks() on rank 0, with whole outputs if
// `gather_outputs` (the same on all ranks) and empty ones otherwise; return an empty result
// elsewhere. Throw InputError for an impossible config. When any rank fails, all processes end. The
// session decides how long a rank may be silent, not config.timeout_s.
RingRun run_one_rank(MpiSession& session, const Problem& config, const ProcessInputs& inputs,
                     bool gather_outputs, Engine& engine, const Progress& progress = {});

// Do the same on CPUs, where blocks move by MPI (mpi_communicator.h).
RingRun run_on_mpi(MpiSession& session, const Problem& config, const ProcessInputs& inputs,
                   bool gather_outputs, const Progress& progress = {});

}  // namespace ringscope

// A run with one process per rank: scatter or generate the rows, run the ring, and gather the
// requested outputs at rank 0, on one clock.
#pragma once

#include "core/ranks/mpi/mpi_session.h"
#include "core/run/engine.h"
#include "core/run/rows.h"
#include "core/run/run.h"

namespace ringscope {

// The source of a process's rows. Exactly one of the two is used, the same one on every rank.
struct ProcessInputs {
  RowSource* generated = nullptr;  // gives any rank's rows, and every rank asks its own
  RowSource* at_rank_0 = nullptr;  // gives everybody's rows on rank 0, which sends them;
                                   // null on the others
  bool is_scattered = false;       // whether the second is meant
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

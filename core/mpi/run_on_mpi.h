// A run with one rank a process: scatter or generate the rows, go round the ring, gather what
// was asked for at rank 0, on one clock.
#pragma once

#include "core/mpi/mpi_session.h"
#include "core/run/engine.h"
#include "core/run/rows.h"
#include "core/run/run.h"

namespace ringscope {

// Where a process's rows come from: exactly one of the two is set, the same one on every rank.
struct ProcessInputs {
  RowSource* generated = nullptr;  // gives any rank's rows: every rank asks its own
  RowSource* at_rank_0 = nullptr;  // asked on rank 0 for everybody's rows, which are sent to them;
                                   // null on the others
  bool is_scattered = false;       // the second is meant
};

// Runs rank session.rank() of `config` (whose world_size is the session's) with what `engine`
// provides for it. On rank 0 the result is that of run_ranks, with whole outputs if `gather_outputs`
// (the same on all ranks) and empty ones otherwise; on the others it is empty. Throws InputError for an
// impossible config; RunError naming rank and step, the same on every rank, when any rank failed, on
// rank 0 as a RunFailure; then no MPI function may be called any more. How long a rank may be silent is
// the session's to say, not config.timeout_s.
RingRun run_one_rank(MpiSession& session, const RingConfig& config, const ProcessInputs& inputs,
                     bool gather_outputs, Engine& engine, const Progress& progress = {});

// The same on CPUs: blocks move by MPI (mpi_communicator.h).
RingRun run_on_mpi(MpiSession& session, const RingConfig& config, const ProcessInputs& inputs,
                   bool gather_outputs, const Progress& progress = {});

}  // namespace ringscope

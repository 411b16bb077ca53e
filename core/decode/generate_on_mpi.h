// Text from a checkpoint with one MPI process per rank. The rank itself is the same as on threads.
// Here its blocks and partial results move by MPI, the lifeline watches its pulse, and a failure
// anywhere ends all ranks.
#pragma once

#include "core/decode/generate.h"
#include "core/mpi/mpi_session.h"

namespace ringscope {

// Run rank session.rank() of the session's world_size. Checkpoint and options are valid and the
// same on all ranks; on_byte and on_prefill are called on rank 0. Return the result of
// generate_on_threads() on rank 0, and an empty one elsewhere. Throw RunError naming the rank, the
// same on every rank, when any rank fails or is silent for the session's timeout; then no MPI
// function may be called any more.
Generated generate_on_mpi(MpiSession& session, const Checkpoint& checkpoint,
                          PartitionKind partition, const GenerateOptions& options,
                          const OnByte& on_byte = {}, const OnPrefill& on_prefill = {});

}  // namespace ringscope

// Text from a checkpoint with a process a rank: a rank is what it is on threads, but its blocks and
// partial results move by MPI, its pulse is watched over the lifeline, and a failure anywhere ends
// all.
#pragma once

#include "core/decode/generate.h"
#include "core/mpi/mpi_session.h"

namespace ringscope {

// Runs rank session.rank() of the session's world_size. Checkpoint and options are valid and the
// same on all ranks; on_byte and on_prefill are called on rank 0. On rank 0 the result is that of
// generate_on_threads; on the others it is empty. Throws RunError naming the rank, the same on
// every rank, when any of them fails or is silent for the session's timeout; then no MPI function
// may be called any more.
Generated generate_on_mpi(MpiSession& session, const Checkpoint& checkpoint,
                          PartitionKind partition, const GenerateOptions& options,
                          const OnByte& on_byte = {}, const OnPrefill& on_prefill = {});

}  // namespace ringscope

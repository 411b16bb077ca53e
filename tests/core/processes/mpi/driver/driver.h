// The parts of mpi_driver. Every rank calls them.
#pragma once

#include "core/processes/mpi/mpi_session.h"

namespace ringscope {

void sweep(MpiSession& session);
void messages(MpiSession& session);
void ahead(MpiSession& session);
void slow_disk(MpiSession& session);
void stuck(MpiSession& session);
// How often so far two threads of this process were in MPI at once.
int overlapping_calls();
void no_source(MpiSession& session);

}  // namespace ringscope

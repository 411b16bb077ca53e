// The parts of mpi_driver. Every rank calls them.
#pragma once

#include <string>

#include "core/mpi/mpi_session.h"

namespace ringscope {

void sweep(MpiSession& session);
void messages(MpiSession& session);
void ahead(MpiSession& session);
void generate(MpiSession& session);
void slow_disk(MpiSession& session);
void stuck(MpiSession& session);
// How often so far two threads of this process were in MPI at once.
int overlapping_calls();
// "wrong-count@1:0" and the like: an injection; "source": rank 0 cannot read its input.
void fail(MpiSession& session, const std::string& what);

}  // namespace ringscope

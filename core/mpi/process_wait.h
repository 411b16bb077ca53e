// How a process waits for MPI outside of the ring: a look now and then, until what it waits for has
// happened or the run has failed somewhere; and the pulse says meanwhile for whom.
#pragma once

#include <mpi.h>

#include "core/mpi/mpi_calls.h"
#include "core/run/engine.h"
#include "core/run/watchdog.h"

namespace ringscope {

class ProcessWait {
 public:
  ProcessWait(Engine& engine, RankPulse& pulse) : engine_(engine), pulse_(pulse) {}

  // Returns when `request` is complete; null requests are. Throws the failure of the run, after which
  // MPI may still touch the request's memory and nobody may call MPI. `peer`: -1 for all.
  void until_complete(MPI_Request& request, int peer) {
    if (request == MPI_REQUEST_NULL) return;
    pulse_.waits_for(peer);
    wait_for_request(request, [this] { engine_.throw_if_failed(); });
    pulse_.waits_for(-1);
    pulse_.advance();
  }

 private:
  Engine& engine_;
  RankPulse& pulse_;
};

}  // namespace ringscope

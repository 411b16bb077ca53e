// A process's wait for MPI outside the ring. It looks from time to time until the request is
// complete or the run has failed somewhere, and the pulse shows meanwhile for whom it waits.
#pragma once

#include <mpi.h>

#include "core/mpi/mpi_calls.h"
#include "core/run/engine.h"
#include "core/run/watchdog.h"

namespace ringscope {

class ProcessWait {
 public:
  ProcessWait(Engine& engine, RankPulse& pulse) : engine_(engine), pulse_(pulse) {}

  // Return when `request` is complete; null requests are. Throw the run's failure, after which MPI
  // may still touch the request's memory and nobody may call MPI. A `peer` of -1 means all.
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

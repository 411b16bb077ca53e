// The messages of clock_sync.h.
#pragma once

#include <optional>

#include "core/mpi/clock_sync.h"
#include "core/mpi/process_wait.h"

namespace ringscope {

// Called by every rank. Nothing on rank 0, whose clock the others read.
std::optional<ClockReading> exchange_clocks(int rank, int world_size, ProcessWait& wait);

}  // namespace ringscope

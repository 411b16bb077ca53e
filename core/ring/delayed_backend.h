// Makes a rank compute more slowly than it can, as `--inject` asks for (faults.h), as a decorator
// around its backend. It sleeps, so that more ranks than there are cores can all be late at once.
#pragma once

#include <memory>

#include "core/ring/block_backend.h"
#include "core/ring/config.h"

namespace ringscope {

// Seconds that `injection` makes `rank` sleep before it attends the block of a step; 0 for none. A
// pure function: every run is late in the same way, and a simulation of the same seed as well
// (core/sim/jitter.h draws the same).
double delay_before(const Injection& injection, int world_size, int rank, Pass pass, int step);

// Null when `config` delays none of what `rank` computes. `config` and `inner`, which must complete its
// operations before it returns, must outlive it.
std::unique_ptr<BlockBackend> with_delays(BlockBackend& inner, const RingConfig& config, int rank);

}  // namespace ringscope

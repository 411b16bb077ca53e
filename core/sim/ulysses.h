// Heads dealt out instead of the sequence: all-to-all, compute, all-to-all; forward of Q, K, V and
// of the output, backward of dO and of dQ, dK, dV (core/cost/traffic.h counts the bytes). An
// all-to-all ends for everybody when the slowest rank has computed and the widest message is
// through, so whoever is late is waited for at both of a pass's all-to-alls, not at N steps. It
// moves N-1 messages a rank, one after the other in latency and side by side in bytes.
//
// On the lanes an all-to-all is one message, to the next rank, that stands for those to all and
// from all, and lasts until the slowest of them is through.
#pragma once

#include "core/sim/machine/machine.h"
#include "core/sim/simulate.h"
#include "core/sim/work.h"

namespace ringscope {

// simulate() of JobScheme::ulysses. Throws InputError for heads that can't be dealt out.
Simulation simulate_ulysses(const SimulationRequest& request, const Work& work,
                            const Machine& machine);

}  // namespace ringscope

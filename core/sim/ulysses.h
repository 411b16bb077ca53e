// Ulysses distributes heads instead of the sequence: all-to-all, compute, all-to-all. They carry Q,
// K, V and the output forward, and dO and dQ, dK, dV backward (core/cost/amounts.h counts the
// bytes). An all-to-all ends for every rank when the slowest rank has computed and the largest
// message has arrived. A late rank therefore delays the others twice per pass, not at N steps. A
// rank sends N-1 messages, whose latencies add up while their bytes move side by side.
//
// On the lanes an all-to-all is one message to the next rank. It stands for the messages to and
// from all ranks and lasts until the slowest has arrived.
#pragma once

#include "core/sim/machine.h"
#include "core/sim/simulate.h"
#include "core/sim/work.h"

namespace ringscope {

// Do what simulate() does for Scheme::ulysses, when the ranks divide both numbers of heads.
Simulation simulate_ulysses(const SimulationRequest& request, const Work& work,
                            const Machine& machine);

}  // namespace ringscope

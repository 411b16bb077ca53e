// A ring of threads or processes on this machine's processors. It predicts the cost of each task in
// the loops' graph (loop_graph.h) from figures that were measured here (core/cost/measure.h), which
// simulate() takes from Machine::cpu.
#pragma once

#include "core/cost/measure.h"
#include "core/sim/shared_cores.h"

namespace ringscope {

// Return the processor seconds of every task of `graph`, which belongs to `job`.
TaskCosts cpu_costs(const LoopGraph& graph, const Problem& job, const CpuFigures& figures);

}  // namespace ringscope

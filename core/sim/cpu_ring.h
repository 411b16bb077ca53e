// A ring of threads, or of processes, on this machine's processors: what the tasks of the loops
// (loop_graph.h) take with the CPU kernels, by figures that were measured on it (core/cost/measure.h).
// simulate() takes them from Machine::cpu.
#pragma once

#include "core/cost/measure.h"
#include "core/sim/shared_cores.h"

namespace ringscope {

// Processor seconds of every task of `graph`, which is job's.
TaskCosts cpu_costs(const LoopGraph& graph, const Job& job, const CpuFigures& figures);

}  // namespace ringscope

// Simulate more threads or processes than the machine has cores. Every task that runs gets an equal
// share of them, so its speed depends on the others and its end is not known when it begins. This
// is therefore an event simulation on the graph of the real loops (loop_graph.h). An event takes
// O(log(running tasks)).
#pragma once

#include <vector>

#include "core/cost/measure.h"
#include "core/sim/account.h"
#include "core/sim/loop_graph.h"
#include "core/sim/simulate.h"

namespace ringscope {

// What each task needs, in seconds on a processor or link of its own.
struct TaskCosts {
  std::vector<double> seconds;  // [task]
  bool hops_take_processors =
      false;  // hops copy blocks by the ranks' processors and share them like other tasks
};

// Return when tasks run on `cores` processors. Hosts compute themselves (LoopTask::posted_after).
// Throw InputError for less than one core.
LoopTimes times_on_shared_cores(const LoopGraph& graph, const TaskCosts& costs, int cores);

// Return the seconds of each task of the account's job: attends and hops as its machine has them,
// and 0 for all others.
std::vector<double> task_seconds(const LoopGraph& graph, Account& account);

// Do what simulate() does for Machine::cores > 0, for scheme ring with K buffers and for allgather.
// Throw InputError for others and beyond kMostGraphRanks. Blocks move over links, beside the
// processors, unless Machine::cpu is set.
Simulation simulate_on_shared_cores(const SimulationRequest& request, const Work& work,
                                    const Machine& machine);

// ---
// A ring of threads or processes on this machine's processors. It predicts the cost of each task in
// the loops' graph (loop_graph.h) from figures that were measured here (core/cost/measure.h), which
// simulate() takes from Machine::cpu.

// Return the processor seconds of every task of `graph`, which belongs to `job`.
TaskCosts cpu_costs(const LoopGraph& graph, const Problem& job, const CpuFigures& figures);

}  // namespace ringscope

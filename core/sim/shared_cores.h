// Ranks that share processors, as threads or processes do that are more than the machine has cores:
// whoever has something to do gets an equal part of them. How fast a task goes then depends on who
// else is at work, so that its end is not known when it begins, and this is a simulation by events:
// of the graph that the real loops make (loop_graph.h), in O(log(tasks at once)) each.
#pragma once

#include <vector>

#include "core/sim/account.h"
#include "core/sim/loop_graph.h"
#include "core/sim/simulate.h"

namespace ringscope {

// What the tasks of a graph need, in seconds on a processor, or a link, of their own.
struct TaskCosts {
  std::vector<double> seconds;  // [task]
  bool hops_take_processors =
      false;  // blocks are copied by the ranks' processors: one more to share
};

// When tasks run on `cores` processors. Hosts compute themselves (LoopTask::posted_after).
// InputError for less than one.
LoopTimes times_on_shared_cores(const LoopGraph& graph, const TaskCosts& costs, int cores);

// What tasks of the account's job take: attending as its machine computes, hops as its links move,
// and nothing else anything.
std::vector<double> task_seconds(const LoopGraph& graph, Account& account);

// simulate() for Machine::cores > 0: schemes ring, with K buffers, and allgather; InputError for
// others and beyond kMostGraphRanks. Blocks move over links, beside the processors, unless there is
// Machine::cpu.
Simulation simulate_on_shared_cores(const SimulationRequest& request, const Work& work,
                                    const Machine& machine);

}  // namespace ringscope

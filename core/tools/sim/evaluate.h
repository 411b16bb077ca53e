// When the tasks of a graph run, given how long each takes: the longest path through it. Where ranks
// share processors, every task that runs gets an equal share of them, so its speed depends on the
// others and its end is not known when it begins; that is an event simulation, in which an event
// takes O(log(running tasks)).
#pragma once

#include <vector>

#include "core/tools/sim/graph.h"

namespace ringscope {

// Seconds since the pass began: backward times count from the end of the slowest rank's forward pass,
// so ranks that begin earlier have negative times.
struct TaskTimes {
  std::vector<double> begin, end;        // by task
  double forward_s = 0, backward_s = 0;  // when the last rank ended the pass

  double wall_s() const { return forward_s + backward_s; }
  double seconds(std::size_t task) const { return end[task] - begin[task]; }
};

struct Processors {
  int count = 0;  // that ranks share; 0: each has its own
  // Hops copy blocks by the ranks' processors and share them like other tasks.
  bool move_blocks = false;
};

// Return when the tasks run, if each begins when all that it waits for has ended and needs
// seconds[task] on a processor or link of its own.
TaskTimes evaluate(const TaskGraph& graph, const std::vector<double>& seconds,
                   const Processors& processors = {});

// ---
// A chain of computations and hops from the beginning of the run to its end, each of which began when
// the one before it ended.
struct CriticalPath {
  double compute_s = 0, hop_s = 0;  // together they are the wall time
  std::vector<int> ranks;           // on the path, from the last to the first, without repeats
};

CriticalPath critical_path(const TaskGraph& graph, const TaskTimes& times);

// Return the rank that `task` waited for last: the other end of a hop, or, where ranks keep step,
// the slowest; or the task's own rank if it waited for nobody else.
int awaited_by(const TaskGraph& graph, const TaskTimes& times, std::size_t task);

}  // namespace ringscope

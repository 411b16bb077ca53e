// The simulator's oracle: the times of all tasks of a graph of loops, task by task.
#pragma once

#include <algorithm>
#include <vector>

#include "core/sim/loop_graph.h"

namespace ringscope {

// Return the times when every rank has its own processor, every sender its own link, and hosts only
// launch work. Each task begins when all that it waits for has ended, and takes seconds[task].
inline LoopTimes times_on_own_processors(const LoopGraph& graph,
                                         const std::vector<double>& seconds) {
  LoopTimes times;
  times.tasks.resize(graph.tasks.size());
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (const std::int32_t number : graph.order) {
      const auto i = static_cast<std::size_t>(number);
      const LoopTask& task = graph.tasks[i];
      if (task.pass != pass) continue;
      bool is_first = true;
      double begin = 0;
      for (const std::int32_t earlier : task.after) {
        const auto e = static_cast<std::size_t>(earlier);
        const double origin = graph.tasks[e].pass == pass ? 0 : times.forward_s;
        const double end = times.tasks[e].end - origin;
        begin = is_first ? end : std::max(begin, end);
        is_first = false;
      }
      times.tasks[i] = {begin, begin + seconds[i]};
      if (pass == Pass::forward && !task.is_hop())
        times.forward_s = std::max(times.forward_s, times.tasks[i].end);
    }
  }
  return times;
}

}  // namespace ringscope

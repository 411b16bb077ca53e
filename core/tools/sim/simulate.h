// Simulate a job on a machine that need not exist: when each rank computes, sends, receives and
// waits. It is the graph of the scheme's own loops (graph.h), with durations from the machine
// (machine.h), evaluated (graph.h).
//
//   in step           what the closed form assumes (core/tools/cost/time.h): all ranks begin a step
//                     together, and it lasts as long as the slowest rank or hop
//   K buffers         what real rings do: a rank begins a step when its block is there
//   on shared cores   more ranks than processors, or measured costs
//
// All times grow with all durations, so a faster link or rank never makes a run longer. More buffers
// never lengthen a forward pass. They may lengthen a backward pass, because gradients may wait for
// blocks that nobody needs yet, which were asked for before them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ring/problem.h"
#include "core/tools/sim/graph.h"
#include "core/tools/sim/machine.h"
#include "core/tools/sim/work.h"

namespace ringscope {

struct SimulatedRank {
  double pairs = 0;      // forward
  double compute_s = 0;  // of both passes, as the next ones
  double wait_s = 0;     // for blocks, and for the others at the end of a step
  double exposed_s = 0;  // not computing during hops that the rank had asked for
  double bytes_sent = 0;
  std::int64_t hops = 0;  // as in core/trace/summary.h
  double end_s = 0;
};

struct Simulation {
  double forward_s = 0, backward_s = 0;  // wall time of the slowest rank
  std::vector<SimulatedRank> ranks;
  double mean_step_pairs = 0, slowest_step_pairs = 0;  // forward: sums over steps
  std::int64_t steps = 0;      // number of (rank, step)s simulated, in both passes
  std::int64_t calls[2] = {};  // those with pairs, by pass
  CriticalPath path;

  double wall_s() const { return forward_s + backward_s; }
  double imbalance() const;        // of pairs: slowest rank / mean
  double balance_ceiling() const;  // of pairs: mean / slowest, summed over steps
  double exposed_s() const;        // of the rank with the most
};

// How a ring's ranks stay together.
enum class Pace { in_step, buffers };

struct SimulationRequest {
  Problem job = {};
  Pace pace = Pace::in_step;  // `buffers`: job.kv_buffers of them; ring, all-gather and two-level
                              // only, and ranks that share cores are in no step
};

// A time span, [begin, end).
struct TimeSpan {
  double begin = 0;
  double end = 0;

  double seconds() const { return end - begin; }
};

// A simulation task by task.
struct SimulatedRun {
  TaskGraph graph;
  std::vector<double> seconds;  // of each task on a processor or link of its own
  TaskTimes times;

  // Return when a hop began and when it was over.
  TimeSpan span_of_hop(std::size_t hop) const {
    return {times.begin[hop], times.end[graph.end_of_hop(hop)]};
  }
};

// Throw InputError for parts that do not fit together (heads that Ulysses can't distribute, nodes that
// don't divide world_size), and what graph_of() throws.
SimulatedRun run_of(const SimulationRequest& request, const Work& work, const Machine& machine);

Simulation summary_of(const Problem& job, const SimulatedRun& run);

// Do both.
Simulation simulate(const SimulationRequest& request, const Work& work, const Machine& machine);

}  // namespace ringscope

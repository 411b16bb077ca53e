// Simulate a job on a machine that need not exist: when each rank computes, sends, receives and
// waits. What runs is the scheme's own loop (core/ring), which computes no attention here.
//
//   in step           what the closed form assumes (core/cost/time.h): all ranks begin a step
//                     together, and it lasts as long as the slowest rank or hop
//   K buffers         what real rings do: a rank begins a step when its block is there (loop_times.h)
//   on shared cores   more ranks than processors, or measured costs (shared_cores.h)
//   ulysses           where heads divide, in closed form: all-to-all to heads, compute, all-to-all
//                     back (ulysses.h); otherwise its loop
//
// All times grow with all durations, so a faster link or rank never makes a run longer. More buffers
// never lengthen a forward pass, but may lengthen a backward pass (loop_times.h).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/ring/problem.h"
#include "core/sim/machine.h"
#include "core/sim/work.h"
#include "core/trace/event.h"

namespace ringscope {

struct SimulatedRank {
  double pairs = 0;      // forward
  double compute_s = 0;  // of both passes, as the next ones
  double wait_s = 0;     // for blocks, and for the others at the end of a step
  double exposed_s = 0;  // sending or receiving while not computing
  double bytes_sent = 0;
  std::int64_t hops = 0;
  double end_s = 0;
};

// A chain of computations and hops from the beginning of the run to its end, each of which began
// when the one before it ended.
struct CriticalPath {
  double compute_s = 0, hop_s = 0;  // together they are the wall time
  std::vector<int> ranks;           // on the path, from the last to the first, without repeats
};

struct Simulation {
  double forward_s = 0, backward_s = 0;  // wall time of the slowest rank
  std::vector<SimulatedRank> ranks;
  double mean_step_pairs = 0, slowest_step_pairs = 0;  // forward: sums over steps
  std::int64_t steps = 0;  // number of (rank, step)s simulated, in both passes
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
  Pace pace = Pace::in_step;  // ulysses ignores it; `buffers`: job.kv_buffers of them
  // Ranks whose events are sent to `sink`. The length is world_size, or empty for no rank.
  std::vector<bool> recorded = {};
  std::function<void(int rank, const TraceEvent& event)> sink = {};
  // Follow the critical path, which takes memory for every change of rank on any path.
  bool with_path = false;
};

// Simulate `request`. Throw InputError for parts that do not fit together (heads that Ulysses can't
// distribute, nodes that don't divide world_size), and std::bad_alloc.
Simulation simulate(const SimulationRequest& request, const Work& work, const Machine& machine);

}  // namespace ringscope

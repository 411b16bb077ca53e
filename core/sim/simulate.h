// A run of a job on a machine that need not be there: when each rank computes, sends, receives and
// waits. By the same schedule as the real loops (core/ring), step by step.
//
//   ring, in step     what the closed form assumes (core/cost/time.h): all ranks begin a step
//                     together, and it lasts as long as the slowest of them or of its hops
//   ring, K buffers   what the real ring does: a rank begins step t when its block is there; a hop
//                     begins when both of its ranks have the block before, and have a buffer to
//                     spare: the one of step t - K has been attended (ring_times.h)
//   two-level         two_level.h
//   allgather         all hops first, then all blocks; at both paces
//   ulysses           every rank's heads for its rows, and back; in step
//
// Every duration is known when its beginning is, so nothing needs to be put in order: a pass is one
// sweep over the steps that keeps only the last K of them. (Machine::cores is the exception, see
// shared_cores.h.) All times grow with all durations: a faster link or rank never makes a run longer.
// Nor do more buffers make a forward pass longer; backward they may, see ring_times.h.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/cost/job.h"
#include "core/sim/machine/machine.h"
#include "core/sim/work.h"
#include "core/trace/event.h"

namespace ringscope {

struct SimulatedRank {
  double pairs = 0;      // forward
  double compute_s = 0;  // both passes, as the next ones
  double wait_s = 0;     // for blocks, and for the others at the end of a step
  double exposed_s = 0;  // sending or receiving while it did not compute
  double bytes_sent = 0;
  std::int64_t hops = 0;
  double end_s = 0;
};

// A chain of computations and hops, each of which began when the one before it ended, from the
// beginning of the run to its end.
struct CriticalPath {
  double compute_s = 0, hop_s = 0;  // they add up to the wall time
  std::vector<int> ranks;           // that it runs through, from the last to the first, no repeats
};

struct Simulation {
  double forward_s = 0, backward_s = 0;  // wall time of the slowest rank
  std::vector<SimulatedRank> ranks;
  double mean_step_pairs = 0, slowest_step_pairs = 0;  // forward: sums over steps
  std::int64_t steps = 0;  // (rank, step)s that were gone through, both passes
  CriticalPath path;

  double wall_s() const { return forward_s + backward_s; }
  double imbalance() const;        // of pairs: slowest rank / mean
  double balance_ceiling() const;  // of pairs: mean / slowest, summed over steps
  double exposed_s() const;        // of the rank with the most
};

// How a ring's ranks keep together.
enum class Pace { in_step, buffers };

struct SimulationRequest {
  Job job;
  Pace pace = Pace::in_step;  // but for ulysses; `buffers`: as many as job.kv_buffers
  // Whose events are given to `sink`: as long as world_size, or empty: nobody's.
  std::vector<bool> recorded = {};
  std::function<void(int rank, const TraceEvent& event)> sink = {};
  // Follow the critical path: takes two bytes a (rank, step) and pass.
  bool with_path = false;
};

// Throws InputError for what does not fit together (heads that Ulysses can't deal out, nodes that
// don't divide world_size), std::bad_alloc.
Simulation simulate(const SimulationRequest& request, const Work& work, const Machine& machine);

}  // namespace ringscope

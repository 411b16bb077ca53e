// The summary of a recording: how much each rank computed, waited and sent, and how evenly.
#pragma once

#include <cstdint>
#include <vector>

#include "core/trace/event.h"

namespace ringscope {

struct RankSummary {
  std::vector<Index> pairs_by_step;  // forward pass, counted by the kernel
  Index pairs = 0;                   // their sum
  double compute_s = 0;              // both passes, wall time of compute slices
  double compute_cpu_s = 0;          // processor time within those slices
  double wait_s = 0;
  double exposed_s = 0;  // transfer time during which the rank did not compute
  Index bytes_sent = 0;
  int hops = 0;  // steps, of both passes, after which the rank's blocks moved on
};

struct RunSummary {
  std::vector<RankSummary> ranks;
  double imbalance = 1;           // of pairs: slowest rank / mean
  double balance_ceiling = 1;     // of pairs: mean / slowest, summed over forward steps
  double measured_imbalance = 1;  // the same two, of processor time in forward compute slices
  double measured_balance_ceiling = 1;
  double exposed_s = 0;  // of the rank with the most
};

// Summarize `recording`, which must be as write_chrome_trace accepts it, with steps below
// world_size. Every pairs_by_step reaches up to the last forward step that any rank recorded, or
// to the last one of the ring where a run that has ended sent only what was needed.
RunSummary summarize(const Recording& recording);

// How a rank's computing and its communication (sends and receives) overlap, in nanoseconds. Time in
// several slices at once counts once, so compute + exposed + idle is the span of the run.
struct RankOverlap {
  std::int64_t compute = 0, communication = 0;
  std::int64_t exposed = 0;  // communication during which the rank did not compute
  std::int64_t span = 0;     // of the run, from the first slice of any rank to the end of the last

  std::int64_t overlapped() const { return communication - exposed; }
  std::int64_t idle() const { return span - compute - exposed; }
  RankOverlap& operator+=(const RankOverlap& other);
};
// Return the overlap of a rank's events, in any order, in a run of `span` nanoseconds.
RankOverlap overlap_of(const std::vector<TraceEvent>& events, std::int64_t span = 0);

// Return slowest / mean of per-rank totals, or 1 when there is no work.
double imbalance(const std::vector<double>& work_by_rank);
// Return the same of work[rank][step], whose steps add up to the totals.
double imbalance_of_steps(const std::vector<std::vector<double>>& work);

// Return sum of means / sum of maxima over steps, of work[rank][step], or 1 when all are zero. Where ranks
// share no steps (Travel::shares_steps), all that a rank does counts as one.
double balance_ceiling(const std::vector<std::vector<double>>& work, bool shares_steps = true);

}  // namespace ringscope

// The numbers that a recording comes down to: what each rank did, waited and sent, and how evenly.
#pragma once

#include <vector>

#include "core/trace/event.h"

namespace ringscope {

struct RankSummary {
  std::vector<Index> pairs_by_step;  // forward pass, counted by the kernel
  Index pairs = 0;                   // their sum
  double compute_s = 0;              // both passes, wall time of compute slices
  double compute_cpu_s = 0;          // processor time within them
  double wait_s = 0;
  double exposed_s = 0;  // transfer time during which the rank did not compute
  Index bytes_sent = 0;
  int hops = 0;  // steps, of both passes, at whose end the rank's blocks moved on
};

struct RunSummary {
  std::vector<RankSummary> ranks;
  double imbalance = 1;           // of pairs: slowest rank / mean
  double balance_ceiling = 1;     // of pairs: mean / slowest, summed over forward steps
  double measured_imbalance = 1;  // the same two of processor time in forward compute slices
  double measured_balance_ceiling = 1;
  double exposed_s = 0;  // the rank with the most
};

// `recording` as write_chrome_trace accepts it; steps below world_size. pairs_by_step is as long
// for every rank: up to the last forward step that any of them recorded.
RunSummary summarize(const Recording& recording);

// Slowest / mean of per-rank totals; 1 when there is nothing to do.
double imbalance(const std::vector<double>& work_by_rank);

// Sum over steps of the mean / sum over steps of the maximum, of work[rank][step]; 1 when all zero.
double balance_ceiling(const std::vector<std::vector<double>>& work);

}  // namespace ringscope

// Tabulates the work by rank and step: what the closed forms predict, what the kernel counted, and
// how long it took.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tools/explain/explain.h"
#include "core/trace/summary.h"
#include "viz/data/mask/mask_painter.h"
#include "viz/data/trace/trace.h"

namespace ringscope::viz {

// A WorkCell is what one rank does at one step of the axis.
struct WorkCell {
  std::int64_t predicted_pairs = 0;  // 0 if the recording's mask or partition is unknown
  std::int64_t pairs = 0;
  std::int64_t flops = 0;
  std::int64_t compute_ns = 0;
  std::int64_t cpu_ns = 0;
  std::int64_t wait_ns = 0;
  std::int64_t pace_ns = 0;  // compute_ns of 10^6 pairs; 0 without pairs

  // Return whether the cell has a figure: a rank that attends nothing has no pace.
  bool has(std::int64_t WorkCell::*figure) const {
    return figure != &WorkCell::pace_ns || pace_ns != 0;
  }
};

inline constexpr std::int64_t WorkCell::*kWorkFigures[] = {
    &WorkCell::predicted_pairs, &WorkCell::pairs,   &WorkCell::flops,  &WorkCell::compute_ns,
    &WorkCell::cpu_ns,          &WorkCell::wait_ns, &WorkCell::pace_ns};

struct WorkTable {
  int ranks = 0;
  int steps = 0;                // of the step axis: forward, then backward
  bool predicted = false;       // whether predicted_pairs are known
  std::vector<WorkCell> cells;  // [rank][step]
  std::vector<bool> recorded;   // [rank]: whether it computes or waits anywhere
  WorkCell largest;             // the largest value of each figure
  // These are of forward pairs, as in core/trace/summary.h, and of ranks of which they are known
  // (figure_of); measured ones are of the processor time of recorded ranks.
  double imbalance = 1, balance_ceiling = 1;
  double measured_imbalance = 1, measured_balance_ceiling = 1;
  double predicted_balance_ceiling = 1;
  std::vector<RankOverlap> overlaps;  // [rank]; of a training step, those of its ring
  double exposed_s = 0;               // of the rank with the most
  double wall_s = 0;

  // Return the figure that stands for `of` of a rank: where the rank was not recorded, predicted
  // pairs for pairs, and none (null) for what can't be predicted.
  std::int64_t WorkCell::*figure_of(int rank, std::int64_t WorkCell::*of) const {
    if (recorded[rank] || of == &WorkCell::predicted_pairs) return of;
    return predicted && of == &WorkCell::pairs ? &WorkCell::predicted_pairs : nullptr;
  }
  double pairs_of(int rank, int of_steps) const;  // at the first `of_steps` steps of the axis
  double pairs_of_busiest(int of_steps) const;
  const WorkCell& at(int rank, int step) const {
    return cells[static_cast<std::size_t>(rank) * static_cast<std::size_t>(steps) +
                 static_cast<std::size_t>(step)];
  }
};

// Return the pairs that each rank attends at each ring step: [rank][step].
std::vector<std::vector<Index>> predicted_pairs(const MaskModel& model);

// How far ranks are from the median of the recorded ranks that have the figure in the same steps.
struct Deviations {
  std::vector<double> usual;    // [step]: the median over ranks
  std::vector<double> by_rank;  // mean distance over all steps
};
Deviations deviations_of(const WorkTable& table, std::int64_t WorkCell::*figure);

// Return the figure that shows best what cost the most, as an index in kHeatMetrics (2: time, 3:
// waiting, 4: pace), or the one in which ranks differ most if they differ in others alone.
int telling_metric(const WorkTable& table, const Explanation& why);

// Return the ranks of each node: equal shares of consecutive ranks; all in one if the recording
// names no nodes or they can't be equal.
std::vector<std::vector<int>> nodes_of(const RunInfo& run);

// Return the work table of a recording of ours; empty for any other trace.
WorkTable balance_of(const Trace& trace);

}  // namespace ringscope::viz

#include "viz/data/analysis/balance.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/ring/ring.h"
#include "core/ring/scheme.h"
#include "core/tools/explain/fitted_run.h"
#include "viz/data/timeline/axis.h"

namespace ringscope::viz {

namespace {

// Limits: a larger table of ranks by steps shows nothing, and a longer prediction takes seconds.
constexpr std::int64_t kMaxCells = std::int64_t{1} << 21;
constexpr std::int64_t kMaxPredictionWork = std::int64_t{1} << 27;

void predict(const MaskModel& model, int forward_steps, WorkTable& table) {
  const int ranks = model.partition.world_size;
  if (ranks != table.ranks || (model.mask().num_documents + 1) * ranks * ranks > kMaxPredictionWork)
    return;
  table.predicted = true;
  const std::vector<std::vector<Index>> pairs = predicted_pairs(model);
  for (std::size_t cell = 0; cell < table.cells.size(); ++cell) {
    const std::size_t steps = static_cast<std::size_t>(table.steps), step = cell % steps;
    const std::size_t ring_step = step % static_cast<std::size_t>(std::max(forward_steps, 1));
    table.cells[cell].predicted_pairs = pairs[cell / steps][ring_step % pairs.size()];
  }
}

// Return `of` of the forward cells of the ranks of which it is known, in the form that
// core/trace/summary.h takes.
std::vector<std::vector<double>> forward_work(const WorkTable& table, int forward_steps,
                                              std::int64_t WorkCell::*of) {
  std::vector<std::vector<double>> work;
  for (int rank = 0; rank < table.ranks; ++rank) {
    std::int64_t WorkCell::*const figure = table.figure_of(rank, of);
    if (figure == nullptr) continue;
    auto& mine = work.emplace_back();
    for (int step = 0; step < forward_steps; ++step)
      mine.push_back(static_cast<double>(table.at(rank, step).*figure));
  }
  return work;
}

}  // namespace

double WorkTable::pairs_of(int rank, int of_steps) const {
  std::int64_t WorkCell::*const figure = figure_of(rank, &WorkCell::pairs);
  double pairs = 0;
  for (int step = 0; step < of_steps && figure != nullptr; ++step)
    pairs += static_cast<double>(at(rank, step).*figure);
  return pairs;
}

double WorkTable::pairs_of_busiest(int of_steps) const {
  double most = 0;
  for (int rank = 0; rank < ranks; ++rank) most = std::max(most, pairs_of(rank, of_steps));
  return most;
}

std::vector<std::vector<Index>> predicted_pairs(const MaskModel& model) {
  const Mask mask = model.mask();
  const int ranks = model.partition.world_size;
  std::vector<std::vector<Index>> pairs(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    for (int step = 0; step < ranks; ++step) {
      const int owner = RingSchedule{rank, ranks}.owner(step);
      pairs[static_cast<std::size_t>(rank)].push_back(model.region(mask, rank, owner).pairs());
    }
  return pairs;
}

Deviations deviations_of(const WorkTable& table, std::int64_t WorkCell::*figure) {
  Deviations found;
  found.by_rank.assign(static_cast<std::size_t>(table.ranks), 0);
  for (int step = 0; step < table.steps; ++step) {
    std::vector<double> column;
    const auto counts = [&](int rank) {
      return table.recorded[rank] && table.at(rank, step).has(figure);
    };
    for (int rank = 0; rank < table.ranks; ++rank)
      if (counts(rank)) column.push_back(static_cast<double>(table.at(rank, step).*figure));
    const double usual = median_of(column);
    found.usual.push_back(usual);
    for (int rank = 0; rank < table.ranks; ++rank)
      if (counts(rank))
        found.by_rank[rank] +=
            std::abs(static_cast<double>(table.at(rank, step).*figure) - usual) / table.steps;
  }
  return found;
}

int telling_metric(const WorkTable& table, const Explanation& why) {
  constexpr int kTime = 2, kWaiting = 3, kPace = 4;
  constexpr double kVisible = 0.01;
  const Cause cause = why.findings.empty() ? Cause::slow_rank : why.findings[0].cause;
  // All ranks may wait alike for links.
  if (cause == Cause::slow_link || cause == Cause::late_start ||
      (why.findings.empty() && why.transfers_s > kVisible * why.wall_s))
    return kWaiting;
  const int preferred = cause == Cause::imbalance ? kTime : kPace;
  int widest = preferred;
  double most = 0;
  for (const auto& [metric, figure] : {std::pair{kPace, &WorkCell::pace_ns},
                                       {kWaiting, &WorkCell::wait_ns},
                                       {kTime, &WorkCell::compute_ns}}) {
    const Deviations apart = deviations_of(table, figure);
    double usual = 1;
    for (const double each : apart.usual) usual += each / table.steps;
    const double share = quantile_of(apart.by_rank, 1) / usual;
    if (share < kVisible) continue;
    if (metric == preferred) return preferred;
    if (share <= most) continue;
    widest = metric;
    most = share;
  }
  return widest;
}

std::vector<std::vector<int>> nodes_of(const RunInfo& run) {
  const int named = run.machine ? run.machine->nodes : 1;
  const int count = named > 0 && run.world_size % named == 0 ? named : 1;
  std::vector<std::vector<int>> nodes(static_cast<std::size_t>(count));
  for (int rank = 0; rank < run.world_size; ++rank)
    nodes[rank / (run.world_size / count)].push_back(rank);
  return nodes;
}

WorkTable balance_of(const Trace& trace) {
  WorkTable table;
  const auto ranks = static_cast<std::int64_t>(trace.ranks.size());
  const int steps = step_count(trace), forward_steps = forward_step_count(trace);
  if (!trace.is_ring || ranks * steps > kMaxCells) return table;
  table.ranks = static_cast<int>(ranks);
  table.steps = steps;
  table.cells.resize(static_cast<std::size_t>(ranks * steps));
  table.recorded.resize(static_cast<std::size_t>(ranks));
  table.wall_s = static_cast<double>(trace.wall_ns()) * 1e-9;

  for (int rank = 0; rank < table.ranks; ++rank) {
    int last[2] = {0, std::min(forward_steps, steps - 1)};  // that it attends, by pass
    for (const Lane lane : {Lane::compute, Lane::wait})
      for (const TraceEvent& slice : trace.slices_of(rank, lane)) {
        table.recorded[rank] = true;
        int& last_step = last[static_cast<std::size_t>(slice.pass)];
        int step = axis_step(slice, forward_steps);
        if (lane == Lane::compute) last_step = std::max(last_step, step);
        // A rank that has nothing left to attend waits in its last step.
        if (lane == Lane::wait && step < 0) step = last_step;
        if (step < 0 || step >= steps) continue;
        WorkCell& cell = table.cells[static_cast<std::size_t>(rank) * steps + step];
        cell.pairs = saturating_sum(cell.pairs, slice.pairs);
        cell.flops = saturating_sum(cell.flops, slice.flops);
        cell.cpu_ns = saturating_sum(cell.cpu_ns, slice.cpu_ns);
        (lane == Lane::wait ? cell.wait_ns : cell.compute_ns) += slice.duration_ns();
      }
    table.overlaps.push_back(overlap_of(trace.events[rank], trace.wall_ns()));
    table.exposed_s =
        std::max(table.exposed_s, 1e-9 * static_cast<double>(table.overlaps.back().exposed));
  }
  if (const std::optional<MaskModel> model = mask_model(trace))
    predict(*model, forward_steps, table);
  for (WorkCell& cell : table.cells) {
    if (cell.pairs > 0)
      cell.pace_ns = std::llround(std::min(
          1e6 * static_cast<double>(cell.compute_ns) / static_cast<double>(cell.pairs), 9e18));
    for (const auto of : kWorkFigures) table.largest.*of = std::max(table.largest.*of, cell.*of);
  }

  const auto pairs = forward_work(table, forward_steps, &WorkCell::pairs);
  const auto cpu = forward_work(table, forward_steps, &WorkCell::cpu_ns);
  table.imbalance = imbalance_of_steps(pairs);
  const bool shares_steps = travel_of(trace.info).shares_steps(table.ranks);
  table.balance_ceiling = balance_ceiling(pairs, shares_steps);
  table.measured_imbalance = imbalance_of_steps(cpu);
  table.measured_balance_ceiling = balance_ceiling(cpu, shares_steps);
  table.predicted_balance_ceiling =
      balance_ceiling(forward_work(table, forward_steps, &WorkCell::predicted_pairs), shares_steps);
  return table;
}

}  // namespace ringscope::viz

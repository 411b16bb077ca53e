#include "viz/model/analysis/balance.h"

#include <algorithm>
#include <utility>

#include "core/ring/ring.h"
#include "core/trace/summary.h"
#include "viz/model/analysis/dependencies.h"
#include "viz/model/mask/mask_painter.h"

namespace ringscope::viz {

namespace {

// Limits: a larger table of ranks by steps shows nothing, and a longer prediction takes seconds.
constexpr std::int64_t kMaxCells = std::int64_t{1} << 21;
constexpr std::int64_t kMaxPredictionWork = std::int64_t{1} << 27;

int step_on_axis(const Slice& slice, int forward_steps) {
  return slice.pass == Pass::backward ? forward_steps + slice.step : slice.step;
}

void predict(const MaskModel& model, int forward_steps, Balance& balance) {
  const Mask mask = model.mask();
  const int ranks = model.partition.world_size;
  if (ranks != balance.ranks || (mask.num_documents + 1) * ranks * ranks > kMaxPredictionWork)
    return;
  balance.predicted = true;
  std::vector<LocalRows> rows;
  for (int rank = 0; rank < ranks; ++rank) rows.push_back(model.partition.rows_of(rank));
  for (int rank = 0; rank < ranks; ++rank)
    for (int step = 0; step < balance.steps; ++step) {
      Cell& cell = balance.cells[static_cast<std::size_t>(rank) * balance.steps + step];
      const int owner = RingSchedule{rank, ranks}.owner(step % std::max(forward_steps, 1));
      cell.predicted_pairs = step >= forward_steps && step - forward_steps < forward_steps
                                 ? balance.at(rank, step - forward_steps).predicted_pairs
                                 : Region{mask, rows[static_cast<std::size_t>(rank)],
                                          rows[static_cast<std::size_t>(owner)]}
                                       .pairs();
    }
}

// Return `of` of all forward cells in the form that core/trace/summary.h takes.
template <class Of>
std::vector<std::vector<double>> forward_work(const Balance& balance, int forward_steps, Of&& of) {
  std::vector<std::vector<double>> work(static_cast<std::size_t>(balance.ranks));
  for (int rank = 0; rank < balance.ranks; ++rank)
    for (int step = 0; step < forward_steps; ++step)
      work[static_cast<std::size_t>(rank)].push_back(
          static_cast<double>(of(balance.at(rank, step))));
  return work;
}

double imbalance_of(const std::vector<std::vector<double>>& work) {
  std::vector<double> by_rank;
  for (const auto& steps : work) {
    double total = 0;
    for (const double step : steps) total += step;
    by_rank.push_back(total);
  }
  return imbalance(by_rank);
}

// Return the time in sends and receives of `rank` outside its compute slices.
double exposed_seconds(const Trace& trace, int rank) {
  std::vector<std::pair<std::int64_t, std::int64_t>> transfers;
  for (const ringscope::Lane lane : {ringscope::Lane::send, ringscope::Lane::recv})
    for (const Slice& slice : trace.slices_of(rank, lane))
      transfers.emplace_back(slice.begin_ns, slice.end_ns);
  std::sort(transfers.begin(), transfers.end());
  const std::vector<Slice>& computes = trace.slices_of(rank, ringscope::Lane::compute);
  std::int64_t exposed = 0, done = trace.begin_ns;  // everything before `done` is counted
  auto next = computes.begin();
  for (auto [begin, end] : transfers) {
    begin = std::max(begin, done);
    if (begin >= end) continue;
    done = end;
    exposed += end - begin;
    while (next != computes.end() && next->end_ns <= begin) ++next;
    for (auto hit = next; hit != computes.end() && hit->begin_ns < end; ++hit)
      exposed -=
          std::max<std::int64_t>(std::min(hit->end_ns, end) - std::max(hit->begin_ns, begin), 0);
  }
  return static_cast<double>(exposed) * 1e-9;
}

}  // namespace

Balance balance_of(const Trace& trace) {
  Balance balance;
  const auto ranks = static_cast<std::int64_t>(trace.ranks.size());
  const int steps = step_count(trace), forward_steps = forward_step_count(trace);
  if (!trace.is_ring() || ranks * steps > kMaxCells) return balance;
  balance.ranks = static_cast<int>(ranks);
  balance.steps = steps;
  balance.cells.resize(static_cast<std::size_t>(ranks * steps));
  balance.wall_s = static_cast<double>(trace.wall_ns()) * 1e-9;

  for (int rank = 0; rank < balance.ranks; ++rank) {
    const auto cell_of = [&](const Slice& slice) -> Cell* {
      const int step = step_on_axis(slice, forward_steps);
      if (step < 0 || step >= steps) return nullptr;
      return &balance.cells[static_cast<std::size_t>(rank) * steps + step];
    };
    for (const Slice& slice : trace.slices_of(rank, ringscope::Lane::compute))
      if (Cell* cell = cell_of(slice)) {
        cell->pairs = saturating_sum(cell->pairs, slice.pairs);
        cell->flops = saturating_sum(cell->flops, slice.flops);
        cell->compute_ns += slice.duration_ns();
        cell->cpu_ns = saturating_sum(cell->cpu_ns, slice.cpu_ns);
      }
    for (const Slice& slice : trace.slices_of(rank, ringscope::Lane::wait))
      if (Cell* cell = cell_of(slice)) cell->wait_ns += slice.duration_ns();
    balance.exposed_s = std::max(balance.exposed_s, exposed_seconds(trace, rank));
  }
  if (const std::optional<MaskModel> model = mask_model(trace))
    predict(*model, forward_steps, balance);

  const auto pairs = forward_work(balance, forward_steps, [](const Cell& c) { return c.pairs; });
  const auto cpu = forward_work(balance, forward_steps, [](const Cell& c) { return c.cpu_ns; });
  const auto predicted =
      forward_work(balance, forward_steps, [](const Cell& c) { return c.predicted_pairs; });
  balance.imbalance = imbalance_of(pairs);
  balance.balance_ceiling = balance_ceiling(pairs);
  balance.measured_imbalance = imbalance_of(cpu);
  balance.measured_balance_ceiling = balance_ceiling(cpu);
  balance.predicted_balance_ceiling = balance_ceiling(predicted);
  return balance;
}

}  // namespace ringscope::viz

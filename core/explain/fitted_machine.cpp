// What a fitted run says of its machine, in the terms of a simulation.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/explain/fitted_run.h"

namespace ringscope {
namespace {

constexpr double kLeastJitter = 0.003;           // that is called one
constexpr int kMostFittedRanks = 512;            // at once, because every step has a place
constexpr int kMostSamples = 4, kTogether = 16;  // samples that are fitted, and neighbours in one

}  // namespace

// Return the recorded ranks, and as many of their steps, as a recording of a ring of their own.
static Recording sample_of(const Recording& recording, const std::vector<int>& ranks) {
  Recording sample;
  sample.info = recording.info;
  const int size = sample.info.world_size = static_cast<int>(ranks.size());
  // A block of the whole run has other tiles than one of that ring, so their pairs are counted here.
  std::optional<Work> work;
  const Granularity tile = recorded_tile(sample.info);
  if ((tile.rows > 1 || tile.keys > 1) && sample.info.scheme != name_of(Scheme::ulysses)) {
    sample.info.machine->tile_rows = sample.info.machine->tile_keys = 1;
    work.emplace(recorded_job(recording.info), tile);
  }
  for (int rank = 0; rank < size; ++rank) {
    auto& events = sample.events.emplace_back();
    for (TraceEvent e : recording.events[static_cast<std::size_t>(ranks[rank])]) {
      if (e.step >= size) continue;
      e.src = e.lane == Lane::recv ? (rank + size - 1) % size : rank;
      e.dst = e.lane == Lane::recv ? rank : (rank + 1) % size;
      e.waiting_for = -1;
      if (work && e.pairs > 0 && e.kv_owner >= 0 && e.kv_owner < work->world_size()) {
        const WorkAmount amount = work->of(ranks[static_cast<std::size_t>(rank)], e.kv_owner);
        const double tiles_a_pair = amount.pairs > 0 ? amount.computed / amount.pairs : 1;
        e.pairs = std::llround(tiles_a_pair * static_cast<double>(e.pairs));
        e.flops = std::llround(tiles_a_pair * static_cast<double>(e.flops));
      }
      events.push_back(e);
    }
  }
  return sample;
}

MachineFit fitted_machine(const Recording& recording) {
  MachineFit fit;
  if (recording.info.world_size <= kMostFittedRanks) {
    fit = FittedRun(recording).machine();
  } else {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < recording.events.size(); ++rank)
      if (!recording.events[rank].empty()) ranks.push_back(static_cast<int>(rank));
    // Deal groups of neighbours, so that samples are alike and have links of all kinds.
    const auto samples = 1 + (std::max<std::size_t>(1, ranks.size()) - 1) / kMostFittedRanks;
    const bool is_whole = ranks.size() == recording.events.size() && samples <= kMostSamples;
    std::vector<double> slowness(is_whole ? ranks.size() : 0, 1);
    std::vector<Straggler> stragglers;
    for (std::size_t k = 0; k < std::min<std::size_t>(samples, kMostSamples); ++k) {
      std::vector<int> mine;
      for (std::size_t i = 0; i < ranks.size(); ++i)
        if (i / kTogether % samples == k) mine.push_back(ranks[i]);
      MachineFit part = FittedRun(sample_of(recording, mine)).machine();
      for (const Straggler& slow : part.scenario.stragglers)
        stragglers.push_back({mine[static_cast<std::size_t>(slow.rank)], slow.speed});
      for (std::size_t i = 0; is_whole && i < part.link_slowness.size(); ++i)
        slowness[static_cast<std::size_t>(mine[i])] = part.link_slowness[i];
      if (k == 0) fit = std::move(part);
    }
    fit.scenario.stragglers = std::move(stragglers);
    fit.link_slowness.clear();
    if (is_whole && quantile_of(slowness, 1) > 1) fit.link_slowness = std::move(slowness);
  }
  if (recording.info.backend == "sim") fit.scenario.granularity = recorded_tile(recording.info);
  const bool backward = fit.scenario.job.backward;
  fit.scenario.job = recorded_job(recording.info);
  fit.scenario.job.backward = backward;
  return fit;
}

MachineFit FittedRun::machine() const {
  MachineFit fit;
  Scenario& scenario = fit.scenario;
  const RunInfo& info = times_.info();
  scenario.job.backward = times_.has(Pass::backward);
  double pace = 1;
  scenario.jitter = jitter(pace);
  const auto rate = [&](Pass pass) {
    if (const double given = given_flops(pass); given > 0) return given;
    const double pair_s = pair_s_[of(pass)] * pace;
    return pair_s > 0 ? times_.flops_a_pair(pass) / pair_s : 0;
  };
  const double forward = rate(Pass::forward), backward = rate(Pass::backward);
  scenario.rates.forward_flops = forward > 0 ? forward : backward;
  scenario.rates.backward_flops = backward > 0 ? backward : forward;
  scenario.step_s = fixed_;
  scenario.cores = shares_cores()                          ? cores_
                   : times_.is_simulated() && info.machine ? info.machine->cores
                                                           : cores_in_turn_;
  fit.interrupted = shares_cores();
  std::vector<double> pairs(slowness_.size()), lost = pairs;
  for_steps([&](Pass pass, std::size_t i, const RankStep& step) {
    if (!step.known) return;
    pairs[static_cast<std::size_t>(rank_of(i))] += pair_s_[of(pass)] * step.work;
    lost[static_cast<std::size_t>(rank_of(i))] += extra_[of(pass)][i];
  });
  for (std::size_t rank = 0; rank < pairs.size(); ++rank) {
    if (!(pairs[rank] > 0)) continue;
    // What a rank loses does not vary, but simulated jitter is in proportion to all that it takes.
    const double slowness =
        slowness_[rank] + lost[rank] / (pairs[rank] * pace * (1 + scenario.jitter));
    if (slowness != 1)
      scenario.stragglers.push_back({static_cast<int>(rank), 1 / std::max(slowness, 1e-3)});
  }
  take_links(fit);
  return fit;
}

// Return by what share of their pairs' time computations take longer by chance, 0 for next to none,
// and set the share of the fitted pace that they take without. Real paces are medians, so chance is
// a part of them: an exponential one, whose mean is as large as its standard deviation.
double FittedRun::jitter(double& pace) const {
  double should = 0, took = 0, squares = 0, spent = 0;
  for_steps([&](Pass pass, std::size_t i, const RankStep& step) {
    if (!step.known || extra_[of(pass)][i] > 0) return;
    const double pairs =
        pair_s_[of(pass)] * step.work * slowness_[static_cast<std::size_t>(rank_of(i))];
    const double time = computing(step) - (times_.is_simulated() ? fixed_of(step) : 0);
    if (!(pairs > 0)) return;
    should += pairs;
    took += time;
    squares += time * time / pairs;
    spent += step.cpu;
  });
  if (!(should > 0)) return 0;
  const double mean = took / should;
  if (!times_.is_simulated())
    pace = std::max({mean - std::sqrt(std::max(0.0, squares / should - mean * mean)),
                     std::min(mean, spent / should), 1e-3 * mean});
  if (mean > (1 + kLeastJitter) * pace) return mean / pace - 1;
  if (!times_.is_simulated()) pace = mean;
  return 0;
}

void FittedRun::take_links(MachineFit& fit) const {
  Rates& rates = fit.scenario.rates;
  fit.link_slowness.assign(static_cast<std::size_t>(n_), 0);
  double should = 0, off = 0;
  std::map<double, std::vector<double>> by_size;  // the times of usual links
  for (const auto& [link, slowness, steady] : links_) {
    // Chance makes a link slow for blocks of one kind, but not for all.
    if (double& slow = fit.link_slowness[static_cast<std::size_t>(link.from)];
        link.to == (link.from + 1) % n_)
      slow = slow > 0 ? std::min(slow, slowness) : slowness;
    for (const double seconds : link.seconds) {
      if (slowness == 1) by_size[link.largest].push_back(seconds);
      should += steady;
      off += seconds - steady;
    }
  }
  for (double& slow : fit.link_slowness) slow = std::max(slow, 1.0);
  if (quantile_of(fit.link_slowness, 1) == 1) fit.link_slowness.clear();
  if (times_.is_simulated() && off > kLeastJitter * should && should > 0)
    fit.scenario.hop_jitter = off / should;
  if (times_.link()) {
    rates.bytes_per_s = times_.link()->bytes_per_s;
    rates.latency_s = times_.link()->latency_s;
    return;
  }
  rates.bytes_per_s = 0;
  if (by_size.empty()) return;
  const auto& [low, at_low] = *by_size.begin();
  const auto& [high, at_high] = *by_size.rbegin();
  rates.latency_s = fixed_part(at_low, low, at_high, high);
  double bytes = 0, seconds = 0;
  for (const auto& [size, times] : by_size) {
    bytes += size;
    const double usual = fit.scenario.hop_jitter > 0 ? least_of(times) : median_of(times);
    seconds += std::max(0.0, usual - rates.latency_s);  // chance may make it shorter
  }
  rates.bytes_per_s = bytes / seconds;
}

}  // namespace ringscope

#include "viz/model/analysis/run_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/explain/fitted_run.h"
#include "viz/model/analysis/dependencies.h"
#include "viz/model/analysis/ring_moment.h"
#include "viz/model/session/format.h"

namespace ringscope::viz {

namespace {

struct Sums {
  double n = 0, x = 0, t = 0, xx = 0, xt = 0;
};

// Return the fixed time of the fitted line, or 0 if amounts differ too little to tell it.
double fixed_seconds(const std::vector<Measured>& measured, const Sums (&sums)[2]) {
  double n = 0, over = 0, under = 0, groups = 0;
  for (const Sums& s : sums) {
    if (s.n == 0) continue;
    ++groups;
    n += s.n;
    over += s.t - s.xt * s.x / s.xx;
    under += s.n - s.x * s.x / s.xx;
  }
  // `under` / n is about the square of how much amounts differ, as a share of them.
  if (n < groups + 2 || under < 1e-4 * n) return 0;
  const double fixed = over / under;
  double squares = 0;
  for (const Measured& m : measured) {
    const Sums& s = sums[m.group];
    const double slope = (s.xt - fixed * s.x) / s.xx;
    const double off = m.seconds - fixed - slope * m.amount;
    squares += off * off;
  }
  const double error = std::sqrt(squares / (n - groups - 1) / under);
  return fixed >= 3 * error ? std::max(fixed, 0.0) : 0;
}

constexpr double kNearlyAlike = 1.25;       // ratio of speeds up to which ranks count as equal
constexpr double kOwnCore = 0.9;            // least share of processor time with a core of its own
constexpr double kNowAndThen = 0.01;        // share of the time that is ignored
constexpr double kAssumedBytesPerS = 1e10;  // of a link without a recorded hop
constexpr double kMostBytesPerS = 1e15;     // of a link whose hops took no time
constexpr double kMostStep = 1e-4, kMostLatency = 1e-2;  // seconds
constexpr double kSlowLink = 2;  // times as long as most, from which a link counts as slow
constexpr double kOutlier = 3;   // a hop so many times as long as usual was held up

Problem job_of(const RunInfo& run) {
  if (!run.partition_runs.empty())
    throw InputError(fmt::format("partition '{}' is not one of the fixed ones", run.partition));
  if (!run.mask_slices.empty())
    throw InputError(fmt::format("mask '{}' has slices of its own", run.mask));
  return recorded_job(run);
}

template <class Each>
void for_computations(const Trace& trace, Each each) {
  for_each_slice(trace, RingLane::compute, [&](int rank, const Slice& slice) {
    if (slice.flops > 0) each(rank, slice);
  });
}

// Sharing says whether ranks shared cores, and how it shows.
struct Sharing {
  int cores = 0;        // 0: each had its own, or nothing tells
  double given = 1;     // share of these cores' time that the ranks got
  bool by_cpu = false;  // whether to rate computations by processor time
};

// Estimate the sharing from the processor time spent or, if slices are too short to be interrupted,
// from how many ranks ever computed at once (not for simulated ranks).
Sharing sharing_of(const Trace& trace) {
  double spent = 0, lasted = 0;
  std::vector<bool> computes(trace.ranks.size(), false);
  std::vector<std::pair<std::int64_t, int>> changes;
  for_computations(trace, [&](int rank, const Slice& slice) {
    computes[static_cast<std::size_t>(rank)] = true;
    spent += static_cast<double>(slice.cpu_ns);
    lasted += static_cast<double>(slice.duration_ns());
    if (slice.duration_ns() <= 0) return;
    changes.emplace_back(slice.begin_ns, 1);
    changes.emplace_back(slice.end_ns, -1);
  });
  const AtOnce time(std::move(changes), static_cast<int>(trace.ranks.size()));
  const int ranks = static_cast<int>(std::count(computes.begin(), computes.end(), true));
  Sharing sharing;
  const int given = trace.run->machine ? trace.run->machine->cores : 0;
  if (!(spent > 0) || spent >= kOwnCore * lasted) {
    if (trace.run->backend == "sim") return sharing;
    if (given > 0) {
      if (given < ranks) sharing.cores = given;
      return sharing;
    }
    double at_least = 0;
    int most = ranks;
    while (most > 1 && (at_least += time.of(most)) < kNowAndThen * time.capacity(1)) --most;
    if (most < ranks) sharing.cores = most;
    return sharing;
  }
  sharing.cores =
      given > 0 ? std::min(given, ranks) : std::min(time.cores_for(1e-9 * spent), ranks);
  sharing.given = 1e-9 * spent / time.capacity(sharing.cores);
  sharing.by_cpu = true;
  return sharing;
}

std::string words_of(const Sharing& sharing, std::size_t ranks) {
  const std::string cores = counted(sharing.cores, "core");
  if (sharing.by_cpu)
    return fmt::format("{} ranks shared {}: rates are by processor time.", ranks, cores);
  return fmt::format("No more than {} of {} ranks computed at once: as if they shared {}.",
                     sharing.cores, ranks, cores);
}

// Return each rank's time per FLOP relative to the median rank in the same steps.
std::vector<double> slowness_of(const Trace& trace, bool by_cpu) {
  std::map<std::pair<Pass, int>, std::vector<std::pair<double, int>>> steps;
  for_computations(trace, [&](int rank, const Slice& slice) {
    const std::int64_t ns = by_cpu ? slice.cpu_ns : slice.duration_ns();
    if (ns > 0)
      steps[{slice.pass, slice.step}].emplace_back(
          static_cast<double>(ns) / static_cast<double>(slice.flops), rank);
  });
  std::vector<std::vector<double>> ratios(trace.ranks.size());
  for (auto& [step, ranks] : steps) {
    if (ranks.size() < 2) continue;
    std::sort(ranks.begin(), ranks.end());
    const double median = ranks[(ranks.size() - 1) / 2].first;
    for (const auto& [time, rank] : ranks)
      ratios[static_cast<std::size_t>(rank)].push_back(time / median);
  }
  std::vector<double> slowness;
  for (const std::vector<double>& of_rank : ratios) {
    const double median = of_rank.empty() ? 1 : quantile_of(of_rank, 0.5);
    const bool alike = median <= kNearlyAlike && median >= 1 / kNearlyAlike;
    slowness.push_back(alike ? 1 : median);
  }
  return slowness;
}

void measure_computing(const Trace& trace, RunRates& rates) {
  Scenario& machine = rates.scenario;
  const Sharing sharing = sharing_of(trace);
  machine.cores = sharing.cores;
  if (sharing.cores > 0) rates.remarks.push_back(words_of(sharing, trace.ranks.size()));
  std::vector<double> slowness = slowness_of(trace, sharing.by_cpu);
  if (std::find(slowness.begin(), slowness.end(), 1.0) == slowness.end())
    slowness.assign(slowness.size(), 1);
  const auto measured = [&](const Slice& slice) {
    const std::int64_t ns = sharing.by_cpu ? slice.cpu_ns : slice.duration_ns();
    return Measured{static_cast<double>(slice.flops),
                    1e-9 * static_cast<double>(ns) / sharing.given, static_cast<int>(slice.pass)};
  };
  std::vector<Measured> normal;
  for_computations(trace, [&](int rank, const Slice& slice) {
    if (slowness[static_cast<std::size_t>(rank)] == 1) normal.push_back(measured(slice));
    if (slice.pass == Pass::backward) rates.scenario.job.backward = true;
  });
  const LineFit fit = fit_line(normal, kMostStep);
  machine.step_s = fit.fixed;
  const auto rate = [&](Pass pass) {
    const double own = fit.per_unit[static_cast<int>(pass)];
    const double other = fit.per_unit[1 - static_cast<int>(pass)];
    return own > 0 ? 1 / own : other > 0 ? 1 / other : 0;
  };
  machine.rates.forward_flops = rate(Pass::forward);
  machine.rates.backward_flops = rate(Pass::backward);
  if (!(machine.rates.forward_flops > 0)) {
    rates.refusal = "No computation took any time in it.";
    return;
  }

  // Compute exactly how slow the other ranks are.
  std::vector<double> should(slowness.size()), did(slowness.size());
  for_computations(trace, [&](int rank, const Slice& slice) {
    const Measured m = measured(slice);
    should[static_cast<std::size_t>(rank)] += m.amount / machine.rates.flops(slice.pass);
    did[static_cast<std::size_t>(rank)] += m.seconds - machine.step_s;
  });
  for (std::size_t rank = 0; rank < slowness.size(); ++rank)
    if (slowness[rank] != 1) slowness[rank] = std::max(did[rank] / should[rank], 1e-3);
  const auto slowest = std::max_element(slowness.begin(), slowness.end());
  if (*slowest > 1) {
    rates.slow_rank = static_cast<int>(slowest - slowness.begin());
    rates.slowdown = std::exchange(*slowest, 1);
    rates.remarks.push_back(fmt::format("Rank {} took {} times as long as the others to compute.",
                                        rates.slow_rank, words_of_factor(rates.slowdown)));
  }
  for (std::size_t rank = 0; rank < slowness.size(); ++rank)
    if (slowness[rank] != 1)
      machine.stragglers.push_back({static_cast<int>(rank), 1 / slowness[rank]});
}

// Find links from a rank to the next that take much longer than most for the same bytes, such as
// those between nodes.
void find_slow_links(const Trace& trace, RunRates& rates) {
  const std::size_t ranks = trace.ranks.size();
  std::vector<double> slowness(ranks, 0);
  for (const LinkHistory::Carried& link : LinkHistory(trace).links)
    if (static_cast<std::size_t>(link.dst) == (static_cast<std::size_t>(link.src) + 1) % ranks)
      slowness[static_cast<std::size_t>(link.src)] = link.slowness;
  const double most = quantile_of(slowness, 1);
  if (most < kSlowLink || quantile_of(slowness, 0) == 0) return;
  std::size_t slow = 0;
  for (double& of_link : slowness)
    if (of_link < kSlowLink)
      of_link = 1;
    else
      ++slow;
  rates.link_slowness = std::move(slowness);
  rates.remarks.push_back(fmt::format("{} of {} links take up to {} times as long as the others.",
                                      slow, ranks, words_of_factor(most)));
}

void measure_links(const Trace& trace, RunRates& rates) {
  find_slow_links(trace, rates);
  std::vector<Measured> hops;
  for_each_slice(trace, RingLane::recv, [&](int, const Slice& recv) {
    const Transfer transfer = transfer_of(trace, recv);
    const auto ns = static_cast<double>(transfer.end_ns - transfer.begin_ns);
    const bool slow = !rates.link_slowness.empty() && transfer.src >= 0 &&
                      rates.link_slowness[static_cast<std::size_t>(transfer.src)] > 1;
    if (recv.bytes > 0 && !slow) hops.push_back({static_cast<double>(recv.bytes), 1e-9 * ns});
  });
  Rates& machine = rates.scenario.rates;
  if (hops.empty()) {
    machine.bytes_per_s = kAssumedBytesPerS;
    rates.remarks.push_back(fmt::format("No hop was recorded: a link of {}/s is assumed.",
                                        words_of_bytes(kAssumedBytesPerS)));
    return;
  }
  // Drop hops that waited for a processor or for their turn, because they tell nothing of the link.
  const auto pace = [](const Measured& m) { return m.seconds / m.amount; };
  std::vector<double> paces;
  for (const Measured& hop : hops) paces.push_back(pace(hop));
  const double usual = quantile_of(paces, 0.5);
  std::erase_if(hops, [&](const Measured& m) { return pace(m) > kOutlier * usual; });
  const LineFit fit = fit_line(hops, kMostLatency);
  machine.latency_s = fit.fixed;
  machine.bytes_per_s = kMostBytesPerS;
  if (fit.per_unit[0] > 1 / kMostBytesPerS)
    machine.bytes_per_s = 1 / fit.per_unit[0];
  else
    rates.remarks.emplace_back("Hops took no time: their link is taken for endlessly wide.");
}

// Return the pace. Real ranks are never in step. Simulated rings are if they have no number of
// buffers; all-gathers are if ranks wait for the slowest at the end, after the wait for blocks.
Pace pace_of(const Trace& trace) {
  const RunInfo& run = *trace.run;
  if (run.backend != "sim") return Pace::buffers;
  if (run.scheme == "ring") return run.kv_buffers == 0 ? Pace::in_step : Pace::buffers;
  const int last = run.world_size - 1;
  Pace pace = Pace::buffers;
  for_each_slice(trace, RingLane::wait, [&](int, const Slice& wait) {
    if (last > 0 && wait.step == last && wait.payload == Payload::kv) pace = Pace::in_step;
  });
  return pace;
}

std::string why_not(const Trace& trace) {
  if (!trace.is_ring()) return "This trace does not say what was computed, and in which partition.";
  if (trace.run->live_ns) return "This run goes on: there is nothing whole to predict yet.";
  if (trace.run->failure) return "This run broke off: there is nothing whole to predict.";
  if (trace.has_model())
    return "This is a training step: of all that it does, only one ring was recorded in detail.";
  if (trace.slice_count == 0) return "Nothing was recorded in it.";
  return "";
}

}  // namespace

LineFit fit_line(const std::vector<Measured>& measured, double most_fixed) {
  Sums sums[2];
  double least = std::numeric_limits<double>::infinity();
  for (const Measured& m : measured) {
    Sums& s = sums[m.group];
    s.n += 1;
    s.x += m.amount;
    s.t += m.seconds;
    s.xx += m.amount * m.amount;
    s.xt += m.amount * m.seconds;
    least = std::min(least, m.seconds);
  }
  LineFit fit;
  if (measured.empty()) return fit;
  fit.fixed = fixed_seconds(measured, sums);
  if (!(fit.fixed <= most_fixed)) fit.fixed = 0;
  fit.fixed = std::min(fit.fixed, least);
  for (int group = 0; group < 2; ++group) {
    const Sums& s = sums[group];
    if (s.n > 0) fit.per_unit[group] = (s.t - s.n * fit.fixed) / s.x;
  }
  return fit;
}

RunRates rates_of_run(const Trace& trace) try {
  RunRates rates;
  rates.refusal = why_not(trace);
  if (!rates.refusal.empty()) return rates;
  Scenario& scenario = rates.scenario;
  scenario.job = job_of(*trace.run);
  measure_computing(trace, rates);
  if (!rates.refusal.empty()) return rates;
  measure_links(trace, rates);
  scenario.pace = pace_of(trace);
  return rates;
} catch (const InputError& error) {
  RunRates rates;
  rates.refusal = fmt::format("It can't be predicted: {}.", error.what());
  return rates;
}

}  // namespace ringscope::viz

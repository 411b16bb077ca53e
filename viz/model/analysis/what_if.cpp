#include "viz/model/analysis/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <iterator>
#include <new>
#include <utility>

#include "core/base/error.h"
#include "core/sim/recording.h"
#include "viz/model/trace/ring_trace.h"

namespace ringscope::viz {
namespace {

// This effort goes unnoticed. It counts (rank, step)s times the length of the mask's name in units
// of kShortName, because the time for a block's pairs grows with its documents.
constexpr double kAtOnce = 2 * 64 * 64;
constexpr double kShortName = 64;

constexpr int kWhole = 64;   // ranks up to which all are kept
constexpr int kSample = 32;  // kept of more; their rows are low but still show who waits

double effort_of(const RunRates& rates, const WhatIfSettings& settings) {
  const double ranks = settings.world_size;
  return ranks * ranks * (rates.scenario.job.backward ? 2 : 1) *
         std::max(1.0, static_cast<double>(settings.mask.size()) / kShortName);
}

Document timeline_of(Trace trace) {
  Document document;
  document.trace = std::move(trace);
  document.axis = Axis(document.trace);
  document.index = TimelineIndex(document.trace);
  return document;
}

RunInfo info_of(const Scenario& scenario) {
  const Problem& job = scenario.job;
  RunInfo info;
  info.backend = "sim";
  info.partition = name_of(job.partition);
  info.mask = job.mask.name();
  info.mask_slices = job.mask.slice_numbers();
  info.partition_runs = job.partition.numbers();
  info.scheme = name_of(job.scheme);
  info.dtype = name_of(job.dtype);
  info.shape = job.shape;
  info.world_size = job.world_size;
  if (has_buffers(scenario)) info.kv_buffers = job.kv_buffers;
  return info;
}

RunFigures figures_of(const Simulation& run) {
  RunFigures figures;
  figures.wall_s = run.wall_s();
  const auto ranks = static_cast<double>(run.ranks.size());
  double compute = 0;
  for (const SimulatedRank& rank : run.ranks) {
    compute += rank.compute_s / ranks;
    figures.wait_s += rank.wait_s / ranks;
  }
  figures.busy = figures.wall_s > 0 ? compute / figures.wall_s : 1;
  figures.exposed_s = run.exposed_s();
  figures.imbalance = run.imbalance();
  figures.balance_ceiling = run.balance_ceiling();
  return figures;
}

// Throws what simulate() throws.
void simulate_into(Prediction& prediction, const Scenario& scenario,
                   const std::vector<double>& link_slowness, const std::string& name) {
  const Problem& job = scenario.job;
  const bool shared = scenario.cores > 0 && scenario.cores < job.world_size;
  const bool loop = job.scheme == Scheme::allgather ||
                    (job.scheme == Scheme::ring && scenario.pace == Pace::buffers);
  if (shared && !loop)
    throw InputError(
        "ranks that share cores are simulated in a ring with buffers and in all-gather only");
  if (const auto reason = obstacle(scenario)) throw InputError(*reason);
  SimulationRequest request{.job = job, .pace = scenario.pace};
  request.recorded =
      choose_ranks(job.world_size, job.world_size <= kWhole ? job.world_size : kSample, {});
  Recording recording;
  recording.info = info_of(scenario);
  recording.events.resize(static_cast<std::size_t>(job.world_size));
  request.sink = [&recording](int rank, const TraceEvent& event) {
    recording.events[static_cast<std::size_t>(rank)].push_back(event);
  };
  Machine machine = machine_of(scenario);
  // Slow links are known between the recorded ranks only.
  if (link_slowness.size() == static_cast<std::size_t>(job.world_size))
    for (const double slowness : link_slowness)
      machine.to_next.push_back(
          {scenario.rates.bytes_per_s / slowness, scenario.rates.latency_s * slowness});
  prediction.figures = figures_of(simulate(request, work_of(scenario), machine));
  prediction.whole = job.world_size <= kWhole;
  std::vector<int> ranks;
  for (int rank = 0; rank < job.world_size; ++rank)
    if (request.recorded[static_cast<std::size_t>(rank)]) ranks.push_back(rank);
  prediction.document = timeline_of(prediction.whole ? to_trace(recording, name)
                                                     : sample_trace(recording, ranks, name));
}

std::string fresh_name() {
  static std::atomic<int> count{0};
  return fmt::format("{}{}", kPredictedPath, ++count);
}

}  // namespace

Prediction predict(const RunRates& rates, const WhatIfSettings& settings, const std::string& name) {
  Prediction prediction;
  prediction.settings = settings;
  try {
    simulate_into(prediction, scenario_of(rates, settings), rates.link_slowness, name);
  } catch (const InputError& error) {
    prediction.refusal = error.what();
  } catch (const std::bad_alloc&) {
    prediction.refusal = "there is not enough memory to simulate it";
  }
  return prediction;
}

RunFigures figures_of(const Document& recorded) {
  const Trace& trace = recorded.trace;
  RunFigures figures;
  figures.wall_s = 1e-9 * static_cast<double>(trace.wall_ns());
  double ranks = 0, compute = 0, wait = 0;
  for (std::size_t rank = 0; rank < recorded.idle.ranks.size(); ++rank) {
    const auto nothing = [&](RingLane lane) {
      return trace.slices_of(static_cast<int>(rank), lane).empty();
    };
    if (std::all_of(std::begin(kAllLanes), std::end(kAllLanes), nothing)) continue;
    ++ranks;
    compute += 1e-9 * static_cast<double>(recorded.idle.ranks[rank].compute);
    wait += 1e-9 * static_cast<double>(recorded.idle.ranks[rank].wait_ns);
  }
  figures.wait_s = ranks > 0 ? wait / ranks : 0;
  figures.busy = figures.wall_s > 0 && ranks > 0 ? compute / ranks / figures.wall_s : 1;
  figures.exposed_s = recorded.balance.exposed_s;
  figures.imbalance = recorded.balance.imbalance;
  figures.balance_ceiling = recorded.balance.balance_ceiling;
  if (ranks < static_cast<double>(trace.ranks.size()))
    figures.imbalance = figures.balance_ceiling = std::nan("");
  return figures;
}

WhatIf::WhatIf(const Document& recorded)
    : rates_(std::make_shared<RunRates>(rates_of_run(recorded.trace))) {
  if (!refusal().empty()) return;
  recorded_ = figures_of(recorded);
  unmoved_settings_ = settings_of(*rates_);
  settings = unmoved_settings_;
}

void WhatIf::take(Ready ready) {
  if (ready->settings == unmoved_settings_) unmoved_ = ready;
  shown_ = std::move(ready);
}

// Begin a prediction. Return true if it is ready already.
bool WhatIf::begin(const WhatIfSettings& wanted) {
  const auto work = [rates = rates_, wanted, name = fresh_name()] {
    return std::make_shared<const Prediction>(predict(*rates, wanted, name));
  };
  if (effort_of(*rates_, wanted) <= kAtOnce) {
    take(work());
    return true;
  }
  running_ = std::async(std::launch::async, [work]() -> Ready { return work(); });
  return false;
}

void WhatIf::update() {
  if (!refusal().empty()) return;
  settings = within_bounds(settings, *rates_);
  if (running_.valid()) {
    if (running_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
    take(running_.get());
  }
  if (!unmoved_ && !begin(unmoved_settings_)) return;
  if (shown_ && shown_->settings == settings) return;
  if (settings == unmoved_settings_)
    shown_ = unmoved_;
  else
    begin(settings);
}

void WhatIf::finish() {
  for (update(); pending(); update()) running_.wait();
}

}  // namespace ringscope::viz

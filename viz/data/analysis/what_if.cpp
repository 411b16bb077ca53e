#include "viz/data/analysis/what_if.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/tools/explain/fitted_run.h"
#include "core/tools/sim/recording.h"
#include "core/trace/trace.h"
#include "viz/data/analysis/findings.h"
#include "viz/data/session/format.h"

namespace ringscope::viz {
namespace {

constexpr double kAssumedBytesPerS = 1e10;  // of a link without a recorded hop
constexpr double kMostBytesPerS = 1e15;     // of a link whose hops took no time

// Return the pace. Real ranks are never in step. Simulated rings are if they have no number of
// buffers; others are if ranks wait for the slowest when they have attended all. Those that exchange
// heads wait then for what the others attended for them.
Pace pace_of(const Trace& trace, const Scheme& scheme) {
  const RunInfo& run = trace.info;
  if (run.backend != "sim" || scheme.travels == Travels::heads) return Pace::buffers;
  if (scheme.course == Course::steps) return run.kv_buffers == 0 ? Pace::in_step : Pace::buffers;
  Pace pace = Pace::buffers;
  for_each_slice(trace, RingLane::wait, [&](int, const Slice& wait) {
    if (wait.step < 0 && wait.payload == Payload::kv) pace = Pace::in_step;
  });
  return pace;
}

std::string why_not(const Trace& trace) {
  if (!trace.is_ring) return "This trace does not say what was computed, and in which partition.";
  if (trace.info.failure) return "This run broke off: there is nothing whole to predict.";
  if (trace.has_model())
    return "This is a training step: of all that it does, only one ring was recorded in detail.";
  if (trace.is_part) return "Its file is cut off: there is nothing whole to predict.";
  if (trace.slice_count == 0) return "Nothing was recorded in it.";
  if (trace.slice_count > kMostSlices) return "It has too many slices to tell its rates from.";
  const RunInfo& run = trace.info;
  if (!run.partition_runs.empty())
    return fmt::format("It can't be predicted: partition '{}' is none of the fixed ones.",
                       run.partition);
  if (!run.mask_slices.empty())
    return fmt::format("It can't be predicted: mask '{}' has slices of its own.", run.mask);
  return "";
}

}  // namespace

bool is_offered(const Scheme* scheme) {
  return scheme->course == Course::steps || scheme->course == Course::gathers ||
         scheme->course == Course::heads;
}

std::string words_of_way(const Scheme* scheme, Pace pace) {
  if (scheme->course == Course::gathers) return "all-gather";
  if (scheme->course == Course::heads) return "Ulysses";
  return pace == Pace::in_step ? "ring in step" : "ring";
}

namespace {

// Set the slowest rank aside, which has sliders of its own.
void take_slow_rank(RunRates& rates) {
  auto& odd = rates.scenario.stragglers;
  const auto slowest =
      std::min_element(odd.begin(), odd.end(),
                       [](const Straggler& a, const Straggler& b) { return a.speed < b.speed; });
  if (slowest == odd.end() || !(slowest->speed < 1)) return;
  rates.slow_rank = slowest->rank;
  rates.slowdown = 1 / slowest->speed;
  odd.erase(slowest);
  rates.remarks.push_back(fmt::format("Rank {} took {} times as long as the others to compute.",
                                      rates.slow_rank, words_of_factor(rates.slowdown)));
}

void describe_links(RunRates& rates) {
  if (const auto& links = rates.link_slowness; !links.empty())
    rates.remarks.push_back(
        fmt::format("{} of {} links take up to {} times as long as the others.",
                    std::count_if(links.begin(), links.end(), [](double link) { return link > 1; }),
                    links.size(), words_of_factor(*std::max_element(links.begin(), links.end()))));
  double& bytes_per_s = rates.scenario.rates.bytes_per_s;
  if (!(bytes_per_s > 0)) {
    bytes_per_s = kAssumedBytesPerS;
    rates.remarks.push_back(fmt::format("No hop was recorded: a link of {}/s is assumed.",
                                        words_of_bytes(kAssumedBytesPerS)));
  } else if (!(bytes_per_s <= kMostBytesPerS)) {
    bytes_per_s = kMostBytesPerS;
    rates.remarks.emplace_back("Hops took no time: their link is taken for endlessly wide.");
  }
  if (const double jitter = rates.scenario.hop_jitter; jitter > 0)
    rates.remarks.push_back(
        fmt::format("Hops took {} longer by chance, and do so here.", words_of_share(jitter)));
}

// This effort goes unnoticed. It counts (rank, step)s times the length of the mask's name in units
// of kShortName, because the time for a block's pairs grows with its documents, and those of tiles
// times their rows in a block.
constexpr double kAtOnce = 2 * 64 * 64;
constexpr double kShortName = 64, kFewTiles = 32;

constexpr int kWhole = 64;   // ranks up to which all are kept
constexpr int kSample = 32;  // kept of more; their rows are low but still show who waits

double effort_of(const RunRates& rates, const WhatIfSettings& settings) {
  const double ranks = settings.world_size;
  const Scenario& recorded = rates.scenario;
  const bool tiled = recorded.granularity.rows > 1 || recorded.granularity.keys > 1;
  const auto length = static_cast<double>(recorded.job.shape.seqlen);
  const double tiles = tiled ? length / ranks / static_cast<double>(recorded.granularity.rows) : 1;
  return ranks * ranks * (recorded.job.backward ? 2 : 1) * std::max(1.0, tiles / kFewTiles) *
         std::max(1.0, static_cast<double>(settings.mask.size()) / kShortName);
}

Document timeline_of(Trace trace) {
  Document document;
  document.trace = std::move(trace);
  document.axis = Axis(document.trace);
  document.index = TimelineIndex(document.trace);
  return document;
}

// Throws what simulate() throws.
void simulate_into(Prediction& prediction, const Scenario& scenario,
                   const std::vector<double>& link_slowness, const std::string& name) {
  const Problem& job = scenario.job;
  if (const auto reason = obstacle(scenario)) throw InputError(*reason);
  Machine machine = machine_of(scenario);
  // Slow links are known between the recorded ranks of a ring only.
  if (job.scheme->links == Links::to_next &&
      link_slowness.size() == static_cast<std::size_t>(job.world_size))
    for (const double slowness : link_slowness)
      machine.to_next.push_back(
          {scenario.rates.bytes_per_s / slowness, scenario.rates.latency_s * slowness});
  prediction.whole = job.world_size <= kWhole;
  auto [simulation, recording] =
      record({job, scenario.pace}, work_of(scenario), machine, name_of(job.partition),
             prediction.whole ? job.world_size : kSample);
  recording.info.machine.reset();
  prediction.figures = ringscope::figures_of(simulation);
  std::vector<int> ranks;
  for (int rank = 0; rank < job.world_size; ++rank)
    if (!recording.events[static_cast<std::size_t>(rank)].empty()) ranks.push_back(rank);
  prediction.document =
      timeline_of(prediction.whole ? to_trace(std::move(recording), name)
                                   : sample_trace(std::move(recording), ranks, name));
}

std::string fresh_name() {
  static std::atomic<int> count{0};
  return fmt::format("{}{}", kPredictedPath, ++count);
}

}  // namespace

RunRates rates_of_run(const Trace& trace) try {
  RunRates rates;
  rates.refusal = why_not(trace);
  if (!rates.refusal.empty()) return rates;
  MachineFit fit = fitted_machine(trace);
  Scenario& scenario = rates.scenario = std::move(fit.scenario);
  rates.link_slowness = std::move(fit.link_slowness);
  scenario.pace = pace_of(trace, *scenario.job.scheme);
  scenario.cores = std::min(scenario.cores, kMostRanks);
  if (!(scenario.rates.forward_flops > 0)) {
    rates.refusal = "No computation took any time in it.";
    return rates;
  }
  if (scenario.cores > 0 && scenario.cores < scenario.job.world_size) {
    const std::string cores = counted(scenario.cores, "core");
    rates.remarks.push_back(fit.interrupted
                                ? fmt::format("{} ranks shared {}: rates are by processor time.",
                                              scenario.job.world_size, cores)
                                : fmt::format("{} ranks have {}: no more of them compute at once.",
                                              scenario.job.world_size, cores));
  }
  take_slow_rank(rates);
  describe_links(rates);
  if (!is_offered(scenario.job.scheme) && trace.info.machine && trace.info.machine->nodes > 1)
    rates.remarks.emplace_back("Links between nodes are taken for as fast as those inside them.");
  return rates;
} catch (const InputError& error) {
  RunRates rates;
  rates.refusal = fmt::format("It can't be predicted: {}.", error.what());
  return rates;
}

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

Figures figures_of(const Document& recorded) {
  const Trace& trace = recorded.trace;
  Figures figures;
  figures.wall_s = 1e-9 * static_cast<double>(trace.wall_ns());
  const IdleReport& idle = recorded.idle;
  const int ranks = idle.recorded();
  const double wait = 1e-9 * idle.total([](const RankIdle& rank) { return rank.wait_ns; });
  figures.wait_s = ranks > 0 ? wait / ranks : 0;
  figures.efficiency = idle.ranks_ns() > 0 ? idle.compute_ns() / idle.ranks_ns() : 1;
  figures.exposed_s = recorded.balance.exposed_s;
  figures.imbalance = recorded.balance.imbalance;
  figures.balance_ceiling = recorded.balance.balance_ceiling;
  if (ranks < trace.rank_count()) figures.imbalance = figures.balance_ceiling = std::nan("");
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

// ---

namespace {

std::string words_of_scheme(const WhatIfSettings& settings) {
  if (!is_offered(settings.scheme)) return "the recorded scheme";
  const std::string words = words_of_way(settings.scheme, settings.pace);
  return settings.scheme->course == Course::steps ? "a " + words : words;
}

// Three digits, as in the figures beside the sentences.
std::string words_of_seconds(double seconds) { return time_text(1e9 * seconds); }

// Return "11.5 ms instead of 35.1 ms, 3.05 times as fast".
std::string comparison_of(double seconds, double instead_of) {
  std::string text =
      fmt::format("{} instead of {}", words_of_seconds(seconds), words_of_seconds(instead_of));
  if (!(seconds > 0) || !(instead_of > 0)) return text;
  const double ratio = std::max(seconds, instead_of) / std::min(seconds, instead_of);
  if (ratio < 1.005) return words_of_seconds(seconds) + ", the same as before";
  return fmt::format("{}, {} times as {}", text, words_of_factor(ratio),
                     seconds < instead_of ? "fast" : "long");
}

}  // namespace

std::vector<std::string> changes_of(const WhatIfSettings& from, const WhatIfSettings& to) {
  std::vector<std::string> changes;
  const auto add = [&](bool changed, std::string words) {
    if (changed) changes.push_back(std::move(words));
  };
  const auto factor = [&](const char* name, double before, double after) {
    add(before != after, fmt::format("{} × {}", name, words_of_factor(after / before)));
  };
  add(from.world_size != to.world_size, counted(to.world_size, "rank"));
  add(from.partition != to.partition, std::string(name_of(to.partition)));
  add(from.mask != to.mask, to.mask);
  add(std::pair(from.scheme, from.pace) != std::pair(to.scheme, to.pace), words_of_scheme(to));
  add(from.kv_buffers != to.kv_buffers && to.scheme->course == Course::steps &&
          to.pace == Pace::buffers,
      fmt::format("{} KV buffers", to.kv_buffers));
  factor("bandwidth", from.bandwidth, to.bandwidth);
  factor("latency", from.latency, to.latency);
  factor("FLOP/s", from.flops, to.flops);
  add(from.cores != to.cores, to.cores == 0 ? "a core for each rank" : counted(to.cores, "core"));
  add(from.jitter != to.jitter, (to.jitter > 0 ? words_of_share(to.jitter) : "no") + " jitter");
  if (from.slowdown != to.slowdown || (from.slow_rank != to.slow_rank && to.slowdown > 1))
    add(true, to.slowdown > 1 ? fmt::format("rank {} takes {} times as long", to.slow_rank,
                                            words_of_factor(to.slowdown))
                              : "no slow rank");
  return changes;
}

std::string headline_of(const WhatIf& what_if) {
  const Prediction *unmoved = what_if.unmoved(), *shown = what_if.shown();
  if (unmoved == nullptr || shown == nullptr) return "";
  const std::string changes = capitalized(
      fmt::format("{}", fmt::join(changes_of(unmoved->settings, shown->settings), ", ")));
  if (!shown->refusal.empty())
    return fmt::format("{}: {}.", changes.empty() ? "As recorded" : changes, shown->refusal);
  if (changes.empty()) return trust_of(what_if);
  return fmt::format("{}: {}.", changes,
                     comparison_of(shown->figures.wall_s, unmoved->figures.wall_s));
}

std::string trust_of(const WhatIf& what_if) {
  const Prediction* unmoved = what_if.unmoved();
  if (unmoved == nullptr || !unmoved->refusal.empty()) return "";
  const double predicted = unmoved->figures.wall_s, recorded = what_if.recorded().wall_s;
  const double off = recorded > 0 ? predicted / recorded - 1 : 0;
  if (std::abs(off) < 0.0005)
    return fmt::format("With nothing changed, prediction and recording are the same: {}.",
                       words_of_seconds(recorded));
  return fmt::format(
      "With nothing changed, the prediction is {}, which is {:.1f} % {} than the recording.",
      words_of_seconds(predicted), 100 * std::abs(off), off < 0 ? "shorter" : "longer");
}

std::vector<WhatIfFigure> figures_of(const WhatIf& what_if) {
  const auto figures = [](const Prediction* prediction) -> const Figures* {
    return prediction != nullptr && prediction->refusal.empty() ? &prediction->figures : nullptr;
  };
  const Figures *unmoved = figures(what_if.unmoved()), *shown = figures(what_if.shown());
  std::vector<WhatIfFigure> made;
  // `sign` is 1 if more is better and -1 if less is.
  const auto add = [&](const char* name, int sign, bool factor, double Figures::*value,
                       auto&& text) {
    WhatIfFigure figure{.name = name};
    const double recorded = what_if.recorded().*value;
    figure.recorded = std::isnan(recorded) ? "–" : text(recorded);
    if (unmoved != nullptr) figure.unmoved = text(unmoved->*value);
    if (shown != nullptr) figure.shown = text(shown->*value);
    if (unmoved != nullptr && shown != nullptr && figure.unmoved != figure.shown) {
      const double before = unmoved->*value, after = shown->*value;
      figure.better = (after > before ? 1 : -1) * sign;
      if (factor && before > 0 && after > 0)
        figure.change = fmt::format("× {}", words_of_factor(after / before));
    }
    made.push_back(std::move(figure));
  };
  add("wall time", -1, true, &Figures::wall_s, words_of_seconds);
  add("busy, of ranks' time", 1, false, &Figures::efficiency, words_of_share);
  add("balance ceiling", 1, false, &Figures::balance_ceiling, words_of_share);
  add("imbalance", -1, false, &Figures::imbalance,
      [](double x) { return fmt::format("{:.2f}", x); });
  add("exposed, worst rank", -1, true, &Figures::exposed_s, words_of_seconds);
  add("waiting, mean rank", -1, true, &Figures::wait_s, words_of_seconds);
  return made;
}

// ---

namespace {

std::string setting_names() {
  std::string names;
  WhatIfSettings any;
  describe(any, [&](const MemberRow& row, const auto&) {
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  });
  return names;
}

// Split the settings at commas. A word without `=` continues the value before it, because lengths
// of documents are separated by commas as well.
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    if (parts.empty() || part.find('=') != std::string_view::npos)
      parts.emplace_back(part);
    else
      parts.back() += "," + std::string(part);
    at = end + 1;
  }
  return parts;
}

void read_all(WhatIfSettings& settings, std::string_view text) {
  if (text.empty()) return;
  for (const std::string& part : parts_of(text)) {
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string name = part.substr(0, equals);
    const std::string value = equals < part.size() ? part.substr(equals + 1) : "";
    if (!read_member(settings, name, value, "what-if " + name))
      throw InputError(fmt::format("what-if: '{}' given; accepted: SETTING=VALUE,... of {}", name,
                                   setting_names()));
  }
}

}  // namespace

void read_value(WhatIfMask<WhatIfSettings>& to, std::string_view text, const MemberRow&) {
  to.settings.mask = MaskSpec::recorded(text, {}).name();  // opens no file
}

void read_value(WhatIfScheme<WhatIfSettings>& to, std::string_view text, const MemberRow&) {
  const Scheme* const scheme = find_scheme(text);
  if (scheme == nullptr || !is_offered(scheme))
    throw InputError(fmt::format("'{}' given; accepted: ring, allgather, ulysses", text));
  to.settings.scheme = scheme;
}

void read_value(WhatIfPace<WhatIfSettings>& to, std::string_view text, const MemberRow& row) {
  to.settings.scheme = default_scheme();
  to.settings.pace = text == "in-step" ? Pace::in_step : Pace::buffers;
  if (to.settings.pace == Pace::buffers) to.settings.kv_buffers = integer_in<int>(text, row.range);
}

void read_value(SharedCores<WhatIfSettings>& to, std::string_view text, const MemberRow& row) {
  to.settings.cores = text == "own" ? 0 : integer_in<int>(text, row.range);
}

void read_value(SlowRank<WhatIfSettings>& to, std::string_view text, const MemberRow& row) {
  const std::size_t colon = text.find(':');
  if (colon == text.npos) throw InputError(fmt::format("'{}' given; accepted: RANK:SPEED", text));
  to.settings.slow_rank = integer_in<int>(text.substr(0, colon), {0});
  to.settings.slowdown = 1 / number_in(text.substr(colon + 1), row.range);
}

MemberRow row_of(std::string_view name) {
  MemberRow found("", "");
  WhatIfSettings any;
  describe(any, [&](const MemberRow& row, const auto&) {
    if (row.name == name) found = row;
  });
  return found;
}

int most_ranks(const RunRates& rates) {
  return std::max(kMostRanks, rates.scenario.job.world_size);
}

WhatIfSettings settings_of(const RunRates& rates) {
  const Scenario& recorded = rates.scenario;
  WhatIfSettings settings;
  settings.world_size = recorded.job.world_size;
  settings.partition = recorded.job.partition;
  settings.mask = recorded.job.mask.name();
  settings.kv_buffers = recorded.job.kv_buffers;
  settings.cores = recorded.cores;
  settings.slow_rank = std::max(rates.slow_rank, 0);
  settings.slowdown = rates.slowdown;
  settings.jitter = recorded.jitter;
  settings.scheme = recorded.job.scheme;
  settings.pace = recorded.pace;
  return settings;
}

void apply(WhatIfSettings& settings, const RunRates& rates, std::string_view text) {
  read_all(settings, text);
  const auto require_at_most = [](std::string_view name, int value, int least, int most) {
    if (value > most)
      throw InputError(fmt::format("what-if {}: '{}' given; accepted: an integer from {} to {}",
                                   name, value, least, most));
  };
  require_at_most("world-size", settings.world_size, 1, most_ranks(rates));
  require_at_most("cores", settings.cores, 1, most_ranks(rates));
  require_at_most("straggler", settings.slow_rank, 0, settings.world_size - 1);
  try {
    static_cast<void>(work_of(scenario_of(rates, settings)));
  } catch (const InputError& error) {
    throw InputError(fmt::format("what-if mask: {}", error.what()));
  }
}

void check_settings(std::string_view text) {
  WhatIfSettings settings;
  read_all(settings, text);
}

Scenario scenario_of(const RunRates& rates, const WhatIfSettings& settings) {
  Scenario scenario = rates.scenario;
  scenario.rates.forward_flops *= settings.flops;
  scenario.rates.backward_flops *= settings.flops;
  scenario.rates.bytes_per_s *= settings.bandwidth;
  scenario.rates.latency_s *= settings.latency;
  Problem& job = scenario.job;
  job.world_size = settings.world_size;
  job.partition = settings.partition;
  job.mask = MaskSpec::recorded(settings.mask, {});
  job.kv_buffers = settings.kv_buffers;
  if (job.scheme != settings.scheme) job.numbers = Problem().numbers;
  job.scheme = settings.scheme;
  scenario.pace = settings.pace;
  scenario.cores = settings.cores;
  scenario.jitter = settings.jitter;
  std::erase_if(scenario.stragglers, [&](const Straggler& s) {
    return s.rank >= settings.world_size || s.rank == settings.slow_rank;
  });
  if (settings.slowdown > 1)
    scenario.stragglers.push_back({settings.slow_rank, 1 / settings.slowdown});
  return scenario;
}

}  // namespace ringscope::viz

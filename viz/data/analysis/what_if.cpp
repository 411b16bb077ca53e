#include "viz/data/analysis/what_if.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <iterator>
#include <map>
#include <new>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/tools/explain/fitted_run.h"
#include "core/tools/sim/recording.h"
#include "core/tools/sim/scenario_rows.h"
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
  for_each_slice(trace, Lane::wait, [&](int, const TraceEvent& wait) {
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

void describe_links(RunRates& rates) {
  const auto& links = rates.link_slowness;
  const auto slow = std::count_if(links.begin(), links.end(), [](double link) { return link > 1; });
  if (slow > 0)
    rates.remarks.push_back(
        fmt::format("Of the links, {} up to {} times as long as the others.",
                    slow == 1 ? "1 takes" : fmt::format("{} take", slow),
                    words_of_factor(*std::max_element(links.begin(), links.end()))));
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

// Take the nodes, where the recording names what joins them. Only what its links take longer than that
// is slowness of their own.
void take_nodes(RunRates& rates, const RunInfo& run) {
  Scenario& scenario = rates.scenario;
  const int nodes = run.machine ? run.machine->nodes : 1;
  if (nodes < 2 || nodes > run.world_size ||
      (scenario.job.scheme->counts_nodes && nodes != scenario.job.nodes))
    return;
  const auto between = known_link(run.machine->between);
  if (!between) return;
  scenario.job.nodes = nodes;
  scenario.between = *between;
  const Problem& job = scenario.job;
  if (job.scheme->links != Links::to_next || !(scenario.rates.bytes_per_s > 0)) return;
  const double block = block_values(job.shape, job.max_rows()) * job.storage_bytes();
  const std::vector<Path> named = machine_of(scenario).to_next;
  const Path inside{scenario.rates.bytes_per_s, scenario.rates.latency_s};
  for (std::size_t rank = 0; rank < rates.link_slowness.size(); ++rank) {
    double& slowness = rates.link_slowness[rank];
    slowness *= inside.seconds(block) / named[rank].seconds(block);
    if (!(slowness >= 1.05)) slowness = 1;
  }
  if (std::count(rates.link_slowness.begin(), rates.link_slowness.end(), 1) == run.world_size)
    rates.link_slowness.clear();
}

// This effort goes unnoticed. It counts (rank, step)s times the length of the mask's name in units
// of kShortName, because the time for a block's pairs grows with its documents, and those of tiles
// times their rows in a block.
constexpr double kAtOnce = 2 * 64 * 64;
constexpr double kShortName = 64, kFewTiles = 32;

constexpr int kWhole = 64;   // ranks up to which all are kept
constexpr int kSample = 32;  // kept of more; their rows are low but still show who waits

double effort_of(const Scenario& wanted) {
  const Problem& job = wanted.job;
  const double ranks = job.world_size;
  const bool tiled = wanted.granularity.rows > 1 || wanted.granularity.keys > 1;
  const auto length = static_cast<double>(job.shape.seqlen);
  const double tiles = tiled ? length / ranks / static_cast<double>(wanted.granularity.rows) : 1;
  return ranks * ranks * (job.backward ? 2 : 1) * std::max(1.0, tiles / kFewTiles) *
         std::max(1.0, static_cast<double>(job.mask.name().size()) / kShortName);
}

Document timeline_of(Trace trace) {
  Document document;
  document.trace = std::move(trace);
  document.axis = Axis(document.trace);
  document.index = TimelineIndex(document.trace);
  return document;
}

// Throws what simulate() throws.
void simulate_into(Prediction& prediction, Scenario scenario,
                   const std::vector<double>& link_slowness, const std::string& name) {
  const Problem& job = scenario.job;
  std::erase_if(scenario.stragglers,
                [&](const Straggler& one) { return one.rank >= job.world_size; });
  check(scenario);
  if (const auto reason = obstacle(scenario)) throw InputError(*reason);
  Machine machine = machine_of(scenario);
  // Slow links are known between the recorded ranks of a ring only.
  const std::size_t links = link_slowness.size();
  if (job.scheme->links == Links::to_next && links == static_cast<std::size_t>(job.world_size)) {
    machine.to_next.resize(links, {scenario.rates.bytes_per_s, scenario.rates.latency_s});
    for (std::size_t rank = 0; rank < links; ++rank) {
      machine.to_next[rank].bytes_per_s /= link_slowness[rank];
      machine.to_next[rank].latency_s *= link_slowness[rank];
    }
  }
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
  return fmt::format("predicted {}", ++count);
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
  if (const Straggler slowest = slowest_of(scenario); slowest.speed < 1)
    rates.remarks.push_back(fmt::format("Rank {} took {} times as long as the others to compute.",
                                        slowest.rank, words_of_factor(1 / slowest.speed)));
  take_nodes(rates, trace.info);
  describe_links(rates);
  if (!is_offered(scenario.job.scheme) && trace.info.machine && trace.info.machine->nodes > 1 &&
      scenario.between.name.empty())
    rates.remarks.emplace_back("Links between nodes are taken for as fast as those inside them.");
  return rates;
} catch (const InputError& error) {
  RunRates rates;
  rates.refusal = fmt::format("It can't be predicted: {}.", error.what());
  return rates;
}

Prediction predict(const RunRates& rates, const Scenario& settings, const std::string& name) {
  Prediction prediction;
  prediction.settings = settings;
  try {
    simulate_into(prediction, settings, rates.link_slowness, name);
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
  settings = unmoved_settings();
}

void WhatIf::take(Ready ready) {
  if (settings_of(unmoved_settings(), ready->settings).empty()) unmoved_ = ready;
  shown_ = std::move(ready);
}

// Begin a prediction. Return true if it is ready already.
bool WhatIf::begin(const Scenario& wanted) {
  const auto work = [rates = rates_, wanted, name = fresh_name()] {
    return std::make_shared<const Prediction>(predict(*rates, wanted, name));
  };
  if (effort_of(wanted) <= kAtOnce) {
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
  if (!unmoved_ && !begin(unmoved_settings())) return;
  if (shown_ && settings_of(shown_->settings, settings).empty()) return;
  if (settings_of(unmoved_settings(), settings).empty())
    shown_ = unmoved_;
  else
    begin(settings);
}

void WhatIf::finish() {
  for (update(); pending(); update()) running_.wait();
}

// ---

namespace {

std::string words_of_scheme(const Scenario& scenario) {
  const Scheme* const scheme = scenario.job.scheme;
  if (!is_offered(scheme)) return "the recorded scheme";
  const std::string words = words_of_way(scheme, scenario.pace);
  return scheme->course == Course::steps ? "a " + words : words;
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

std::vector<std::string> changes_of(const Scenario& from, const Scenario& to) {
  std::vector<std::string> changes;
  const auto add = [&](bool changed, std::string words) {
    if (changed) changes.push_back(std::move(words));
  };
  const auto factor = [&](const char* name, double Rates::*rate) {
    const double before = from.rates.*rate, after = to.rates.*rate;
    add(before != after, fmt::format("{} × {}", name, words_of_factor(after / before)));
  };
  const Problem &before = from.job, &after = to.job;
  add(before.world_size != after.world_size, counted(after.world_size, "rank"));
  add(before.shape.seqlen != after.shape.seqlen, counted(after.shape.seqlen, "position"));
  add(before.shape.num_heads != after.shape.num_heads, counted(after.shape.num_heads, "head"));
  add(before.shape.num_heads_kv != after.shape.num_heads_kv,
      counted(after.shape.num_heads_kv, "KV head"));
  add(before.partition.name() != after.partition.name(), after.partition.name());
  add(before.mask.name() != after.mask.name(), after.mask.name());
  add(words_of_scheme(from) != words_of_scheme(to), words_of_scheme(to));
  add(before.kv_buffers != after.kv_buffers && has_buffers(to),
      counted(after.kv_buffers, "KV buffer"));
  factor("bandwidth", &Rates::bytes_per_s);
  factor("latency", &Rates::latency_s);
  add(before.nodes != after.nodes, counted(after.nodes, "node"));
  if (after.nodes > 1) {
    add(from.between.name != to.between.name, to.between.name + " between nodes");
    add(from.nics != to.nics, counted(to.nics, "link") + " per node");
  }
  factor("FLOP/s", &Rates::forward_flops);
  add(from.cores != to.cores, to.cores == 0 ? "a core for each rank" : counted(to.cores, "core"));
  add(from.jitter != to.jitter, (to.jitter > 0 ? words_of_share(to.jitter) : "no") + " jitter");
  const Straggler slow = slowest_of(to), was = slowest_of(from);
  if (slow.speed != was.speed || (slow.rank != was.rank && slow.speed < 1))
    add(true, slow.speed < 1 ? fmt::format("rank {} takes {} times as long", slow.rank,
                                           words_of_factor(1 / slow.speed))
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
// Settings as text.

namespace {

constexpr Range kFactors = {1.0 / 64, 64, true, "a number from 1/64 to 64"};

const std::vector<MemberRow>& setting_rows() {
  static const std::vector<MemberRow> rows = {
      MemberRow("bandwidth", "X", "From a rank to the next, one way").in(kFactors),
      MemberRow("latency", "X", "Of a message, besides its bytes").in(kFactors),
      MemberRow("flops", "X", "What the attention kernel reaches on a rank, forward").in(kFactors),
      MemberRow("world-size", "N", "world_size: how many ranks share the sequence"),
      MemberRow("seqlen", "N", "How many positions the sequence has").in(kSizes),
      MemberRow("heads", "N", "Query heads").in(kSizes),
      MemberRow("heads-kv", "N", "Heads of keys and values, a divisor of the query heads")
          .in(kSizes),
      MemberRow("partition", ""),
      MemberRow("mask", ""),
      MemberRow("scheme", ""),
      MemberRow("kv-buffers", "K|in-step",
                "That a rank's blocks take turns in: more let it run further ahead")
          .in({2, 16}),
      MemberRow("nodes", "M", "That have equally many ranks in a row each").in({1, 0x1p30}),
      MemberRow("between", "LINK", "From a node to another, one way"),
      MemberRow("nics", "K", "Links between nodes that a node has").in({1, 1 << 20}),
      MemberRow("cores", "C|own", "That ranks share, in equal parts, while they compute"),
      MemberRow("jitter", "X",
                "By so much a computation takes longer, on the average, each by chance")
          .in({0, 2, true, "a number from 0 to 2"}),
      MemberRow("straggler", "RANK:SPEED", "One rank takes so many times as long to compute")
          .in({1.0 / 16, 1, true, "a number from 1/16 to 1"})};
  return rows;
}

// Return the buffers of a ring whose ranks run ahead of each other, "in-step" of one whose ranks don't,
// and "" for other schemes.
std::string buffers_of(const Scenario& scenario) {
  if (scenario.job.scheme->course != Course::steps) return "";
  return scenario.pace == Pace::in_step ? std::string(kInStep)
                                        : std::to_string(scenario.job.kv_buffers);
}

double speed_of(const Scenario& scenario, int rank) {
  for (const Straggler& one : scenario.stragglers)
    if (one.rank == rank) return one.speed;
  return 1;
}

// Read a setting. Throw InputError without its name.
void read_setting(Scenario& to, const Scenario& recorded, const MemberRow& row,
                  std::string_view text) {
  const auto factor = [&](double Rates::*rate) {
    to.rates.*rate = recorded.rates.*rate * number_in(text, row.range);
  };
  if (row.name == "bandwidth") return factor(&Rates::bytes_per_s);
  if (row.name == "latency") return factor(&Rates::latency_s);
  if (row.name == "flops") return factor(&Rates::forward_flops), factor(&Rates::backward_flops);
  if (row.name == "partition") {
    to.job.partition = parse_partition(text);
  } else if (row.name == "mask") {
    to.job.mask = MaskSpec::recorded(text, {});  // opens no file
  } else if (row.name == "nodes") {
    to.job.nodes = integer_in<int>(text, row.range);
  } else if (row.name == "between") {
    const auto link = known_link(std::string(text));
    if (!link)
      throw InputError(
          fmt::format("'{}' given; accepted: {}, or GB/s and microseconds, as in 50,10", text,
                      fmt::join(names_of_links(), ", ")));
    to.between = *link;
  } else if (row.name == "cores") {
    to.cores = text == "own" ? 0 : integer_in<int>(text, row.range);
  } else if (row.name == "straggler") {
    std::vector<Straggler> given;
    read_value(given, text, row);
    for (const Straggler& one : given) set_speed(to, one);
  } else if (row.name == "scheme" && (!find_scheme(text) || !is_offered(find_scheme(text)))) {
    throw InputError(fmt::format("'{}' given; accepted: ring, allgather, ulysses", text));
  } else {
    describe(to, [&](MemberRow of, auto&& member) {
      if (of.name == row.name) read_value(member, text, of.in(row.range));
    });
  }
}

// Split the settings at commas. A word without `=` continues the value before it, because lengths
// of documents are separated by commas as well.
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts;
  for (const std::string_view part : split(text, ','))
    if (parts.empty() || part.find('=') != std::string_view::npos)
      parts.emplace_back(part);
    else
      parts.back() += "," + std::string(part);
  return parts;
}

void read_all(Scenario& to, const Scenario& recorded, std::string_view text) {
  if (text.empty()) return;
  for (const std::string& part : parts_of(text)) {
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string name = part.substr(0, equals);
    const std::string value = part.substr(std::min(equals + 1, part.size()));
    const MemberRow& row = row_of(name);
    try {
      read_setting(to, recorded, row, value);
    } catch (const InputError& error) {
      throw InputError(fmt::format("what-if {}: {}", name, error.what()));
    }
  }
}

}  // namespace

const MemberRow& row_of(std::string_view name) {
  std::vector<std::string_view> names;
  for (const MemberRow& row : setting_rows()) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  throw InputError(fmt::format("what-if: '{}' given; accepted: SETTING=VALUE,... of {}", name,
                               fmt::join(names, ", ")));
}

std::vector<std::string> names_of_links() {
  std::vector<std::string> names;
  for (const ringscope::Link& link : builtin_hardware().links) names.push_back(link.name);
  return names;
}

int most_ranks(const Scenario& recorded) { return std::max(kMostRanks, recorded.job.world_size); }

Straggler slowest_of(const Scenario& scenario) {
  Straggler slowest;
  for (const Straggler& one : scenario.stragglers)
    if (one.speed < slowest.speed) slowest = one;
  return slowest;
}

void set_speed(Scenario& scenario, const Straggler& rank) {
  std::erase_if(scenario.stragglers, [&](const Straggler& one) { return one.rank == rank.rank; });
  if (rank.speed != 1) scenario.stragglers.push_back(rank);
}

std::string settings_of(const Scenario& recorded, const Scenario& wanted) {
  std::string text;
  const auto add = [&text](std::string_view name, const auto& before, const auto& after) {
    if (before != after) text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, after);
  };
  const auto factor = [&](std::string_view name, double Rates::*rate) {
    const double before = recorded.rates.*rate, after = wanted.rates.*rate;
    add(name, 1.0, before == after ? 1.0 : after / before);
  };
  factor("bandwidth", &Rates::bytes_per_s);
  factor("latency", &Rates::latency_s);
  factor("flops", &Rates::forward_flops);
  const Problem &before = recorded.job, &after = wanted.job;
  add("world-size", before.world_size, after.world_size);
  add("seqlen", before.shape.seqlen, after.shape.seqlen);
  add("heads", before.shape.num_heads, after.shape.num_heads);
  add("heads-kv", before.shape.num_heads_kv, after.shape.num_heads_kv);
  add("partition", before.partition.name(), after.partition.name());
  add("mask", before.mask.name(), after.mask.name());
  if (before.scheme != after.scheme || !after.scheme->counts_nodes)  // which `nodes` says
    add("scheme", before.scheme_name(), after.scheme_name());
  if (const std::string buffers = buffers_of(wanted); !buffers.empty())
    add("kv-buffers", buffers_of(recorded), buffers);
  add("nodes", before.nodes, after.nodes);
  if (after.nodes > 1) {
    add("between", recorded.between.name, wanted.between.name);
    add("nics", recorded.nics, wanted.nics);
  }
  if (recorded.cores != wanted.cores)
    add("cores", "", wanted.cores == 0 ? "own" : std::to_string(wanted.cores));
  add("jitter", recorded.jitter, wanted.jitter);
  std::map<int, double> speeds;
  for (const auto* stragglers : {&recorded.stragglers, &wanted.stragglers})
    for (const Straggler& one : *stragglers) speeds[one.rank] = speed_of(wanted, one.rank);
  for (const auto& [rank, speed] : speeds)
    if (speed != speed_of(recorded, rank)) add("straggler", "", fmt::format("{}:{}", rank, speed));
  return text;
}

void apply(Scenario& wanted, const Scenario& recorded, std::string_view text) {
  read_all(wanted, recorded, text);
  const auto require_at_most = [](std::string_view name, int value, int least, int most) {
    if (value > most)
      throw InputError(fmt::format("what-if {}: '{}' given; accepted: an integer from {} to {}",
                                   name, value, least, most));
  };
  const int ranks = wanted.job.world_size;
  require_at_most("world-size", ranks, 1, most_ranks(recorded));
  require_at_most("nodes", wanted.job.nodes, 1, ranks);
  if (wanted.job.nodes != recorded.job.nodes && wanted.job.nodes > 1 && wanted.between.name.empty())
    throw InputError(
        fmt::format("what-if nodes: '{}' given without between; accepted: it together with "
                    "between=LINK",
                    wanted.job.nodes));
  require_at_most("cores", wanted.cores, 1, most_ranks(recorded));
  for (const Straggler& one : wanted.stragglers)
    if (speed_of(recorded, one.rank) == 1) require_at_most("straggler", one.rank, 0, ranks - 1);
  try {
    validate(wanted.job.shape);
  } catch (const InputError& error) {
    throw InputError(fmt::format("what-if {}", error.what()));
  }
  try {
    static_cast<void>(work_of(wanted));
  } catch (const InputError& error) {
    throw InputError(fmt::format("what-if mask: {}", error.what()));
  }
}

void check_settings(std::string_view text) {
  Scenario any;
  read_all(any, any, text);
}

}  // namespace ringscope::viz

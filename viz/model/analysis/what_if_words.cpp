#include "viz/model/analysis/what_if.h"

#include <fmt/format.h>

#include <cmath>

#include "viz/model/session/format.h"

namespace ringscope::viz {
namespace {

std::string words_of_way(const WhatIfSettings& settings) {
  switch (settings.way) {
    case Way::buffers:
      return "a ring";
    case Way::in_step:
      return "a ring in step";
    case Way::allgather:
      return "all-gather";
    case Way::ulysses:
      return "Ulysses";
  }
  return "";
}

std::string words_of_seconds(double seconds) { return words_of_time(1e9 * seconds); }

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
  add(from.way != to.way, words_of_way(to));
  add(from.kv_buffers != to.kv_buffers && to.way == Way::buffers,
      fmt::format("{} KV buffers", to.kv_buffers));
  factor("bandwidth", from.bandwidth, to.bandwidth);
  factor("latency", from.latency, to.latency);
  factor("FLOP/s", from.flops, to.flops);
  add(from.cores != to.cores, to.cores == 0 ? "a core for each rank" : counted(to.cores, "core"));
  add(from.jitter != to.jitter, fmt::format("{} jitter", words_of_share(to.jitter)));
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
  const std::string times = fmt::format("Unmoved, {} predicted and {} recorded",
                                        words_of_seconds(predicted), words_of_seconds(recorded));
  if (std::abs(off) < 0.0005) return times + ": the same.";
  return fmt::format("{}: {:.1f} % too {}.", times, 100 * std::abs(off),
                     off < 0 ? "short" : "long");
}

std::vector<WhatIfFigure> figures_of(const WhatIf& what_if) {
  const auto figures = [](const Prediction* prediction) -> const RunFigures* {
    return prediction != nullptr && prediction->refusal.empty() ? &prediction->figures : nullptr;
  };
  const RunFigures *unmoved = figures(what_if.unmoved()), *shown = figures(what_if.shown());
  std::vector<WhatIfFigure> made;
  // `sign` is 1 if more is better and -1 if less is.
  const auto add = [&](const char* name, int sign, bool factor, double RunFigures::*value,
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
  add("wall time", -1, true, &RunFigures::wall_s, words_of_seconds);
  add("busy, of ranks' time", 1, false, &RunFigures::busy, words_of_share);
  add("balance ceiling", 1, false, &RunFigures::balance_ceiling, words_of_share);
  add("imbalance", -1, false, &RunFigures::imbalance,
      [](double x) { return fmt::format("{:.2f}", x); });
  add("exposed, worst rank", -1, true, &RunFigures::exposed_s, words_of_seconds);
  add("waiting, mean rank", -1, true, &RunFigures::wait_s, words_of_seconds);
  return made;
}

}  // namespace ringscope::viz

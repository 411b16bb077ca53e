#include "viz/data/session/format.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>
#include <ctime>

#include "core/tools/sim/recording.h"

namespace ringscope::viz {
namespace {

// Format three significant digits, and never use powers of ten.
std::string three_digits(double value) {
  const double magnitude = std::abs(value);
  return fmt::format("{:.{}f}", value, magnitude < 9.995 ? 2 : magnitude < 99.95 ? 1 : 0);
}

// Drop the zeros at the end of a fraction.
std::string without_zeros(std::string text) {
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

// "At least one" is meant after rounding. Whole numbers of the smallest unit carry no decimals.
std::string NumberFormat::operator()(double value) const {
  if (std::isnan(value)) return "–";
  if (std::isinf(value)) return value > 0 ? "∞" : "-∞";
  if (value == 0) value = 0;  // removes the sign of -0
  const Unit* unit = &units.front();
  for (const Unit& u : units)
    if (std::abs(value) >= 0.9995 * u.size) unit = &u;
  const double scaled = value / unit->size;
  const bool whole = unit == &units.front() && scaled == std::floor(scaled);
  std::string text = whole ? fmt::format("{:.0f}", scaled) : three_digits(scaled);
  if (drops_zeros) text = without_zeros(std::move(text));
  return *unit->name == '\0' ? text : fmt::format("{} {}", text, unit->name);
}

std::string percent_text(double share) {
  if (std::isnan(share)) return "– %";
  return fmt::format("{:.1f} %", 100 * share + 0.0);
}

std::string words_of_share(double share) {
  const double percent = 100 * share;
  const bool small = percent > 0 && percent < 0.95;
  return fmt::format("{:.{}f} %", percent, small ? 1 : 0);
}

std::string words_of_factor(double factor) {
  return factor >= 9.95 ? fmt::format("{:.0f}", factor) : without_zeros(three_digits(factor));
}

std::vector<std::pair<std::string, std::string>> facts_of(const RunInfo& run, bool backward) {
  std::vector<std::pair<std::string, std::string>> facts;
  const auto add = [&facts](const char* name, std::string value) {
    if (!value.empty()) facts.emplace_back(name, std::move(value));
  };
  const AttentionShape& shape = run.shape;
  add("made by", run.backend == "sim"       ? "simulated"
                 : run.backend == "profile" ? "inferred from a profiler's trace"
                 : run.backend == kIdealBackend
                     ? "idealised: counted work on ranks that are all alike"
                     : "recorded on " + run.backend);
  add("pass", backward ? "forward and backward" : "forward");
  if (!run.lacks_shape) {
    add("sequence", fmt::format("{} x {}", shape.batch, shape.seqlen));
    add("heads", shape.num_heads == shape.num_heads_kv
                     ? fmt::format("{} x {}", shape.num_heads, shape.head_dim)
                     : fmt::format("{} x {}, {} of keys and values", shape.num_heads,
                                   shape.head_dim, shape.num_heads_kv));
  }
  if (run.backend != "profile") add("dtype", run.dtype);
  if (run.softcap) add("softcap", fmt::format("{}", *run.softcap));
  if (run.machine) {
    const RunMachine& machine = *run.machine;
    add("hardware", machine.device);
    add("links", machine.between.empty() ? machine.link
                                         : machine.link + ", between nodes " + machine.between);
    if (machine.nodes > 1) add("nodes", std::to_string(machine.nodes));
    if (machine.cores > 0) add("shared", counted(machine.cores, "core"));
  }
  if (run.base_time_ns > 0)
    add("date",
        fmt::format("{:%Y-%m-%d %H:%M} UTC",
                    fmt::gmtime(static_cast<std::time_t>(run.base_time_ns / 1'000'000'000))));
  add("command", run.command);
  for (const auto& [key, value] : run.origin)
    if (key == "seed" || key == "version" || (key == "machine" && run.backend != kIdealBackend))
      add(key.c_str(), value);
    else if (key == "commit")
      add("commit", value.substr(0, 12));
  return facts;
}

std::string words_of_step(Pass pass, int step) {
  const char* const of = pass == Pass::backward ? "backward " : "";
  return step < 0 ? fmt::format("the last {}step", of) : fmt::format("{}step {}", of, step);
}

std::string listed(const std::vector<std::string>& items, const std::string& last_word) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i)
    text += (i == 0 ? "" : i + 1 < items.size() ? ", " : last_word) + items[i];
  return text;
}

std::string words_of_ranks(const std::vector<int>& ranks) {
  constexpr std::size_t kMostNamed = 4;
  if (ranks.size() > kMostNamed) return counted(ranks.size(), "rank");
  std::vector<std::string> names;
  for (const int rank : ranks) names.push_back(std::to_string(rank));
  return (ranks.size() == 1 ? "rank " : "ranks ") + listed(names, " and ");
}

std::string capitalized(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z')
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

}  // namespace ringscope::viz

#include "viz/data/analysis/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/tools/sim/recording.h"
#include "viz/data/session/format.h"

namespace ringscope::viz {

namespace {

using Documents = std::vector<const Document*>;

enum class Better : std::uint8_t { lower, higher };

bool is_predicted(const Document& document) { return !document.predicted_from.empty(); }

// Return what differs between the problems of recordings, or "" where their figures may be compared.
std::string difference_of(const Documents& documents) {
  std::vector<std::string> different;
  const auto compare_by = [&](const char* name, auto&& of) {
    for (const Document* d : documents)
      if (of(*d) != of(*documents[0])) return different.emplace_back(name), void();
  };
  compare_by("shape", [](const Document& d) { return d.trace.info.shape; });
  compare_by("mask", [](const Document& d) { return d.trace.info.mask; });
  compare_by("dtype", [](const Document& d) { return d.trace.info.dtype; });
  compare_by("passes", [](const Document& d) { return d.axis.steps() > d.axis.forward_steps(); });
  return different.empty() ? "" : listed(different, " and ");
}

bool is_ideal(const Document* document) { return document->trace.info.backend == kIdealBackend; }

// Return the first run whose ranks shared cores, so that its times show a scheduler too; or null.
const RunInfo* sharing(const Documents& documents) {
  for (const Document* d : documents) {
    const RunInfo& run = d->trace.info;
    if (shares_cores(run)) return &run;
  }
  return nullptr;
}

// Return a line, with each value's ratio to the first recording's where that helps (`relative`).
// The best one is a recording, not a prediction, and there is none among unequal problems.
template <class Value, class Text>
ComparedFigure figure(const std::string& name, Better better, bool relative, bool equal,
                      const Documents& documents, Value&& value, Text&& text) {
  ComparedFigure made;
  made.name = name;
  for (const Document* document : documents) {
    const double x = static_cast<double>(value(*document));
    made.values.push_back(x);
    made.texts.push_back(text(x));
    const bool compares =
        relative && equal && x > 0 && made.values[0] > 0 && made.texts.back() != made.texts[0];
    const std::string ratio = compares ? words_of_factor(x / made.values[0]) : "0";
    made.ratios.push_back(ratio == "0" ? "" : ratio + "x");
  }
  if (std::count(made.texts.begin(), made.texts.end(), made.texts[0]) ==
      static_cast<std::ptrdiff_t>(made.texts.size()))
    return made;
  if (!equal) return made;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (is_predicted(*documents[i])) continue;
    const double x = made.values[i];
    const double best = made.best < 0 ? x : made.values[made.best];
    if (made.best < 0 || (better == Better::lower ? x < best : x > best))
      made.best = static_cast<int>(i);
  }
  return made;
}

double bytes_sent(const Document& document) {
  double bytes = 0;
  for_each_slice(document.trace, Lane::send,
                 [&](int, const TraceEvent& slice) { bytes += static_cast<double>(slice.bytes); });
  return bytes;
}

// Return how much sooner a run would have ended without a cause, in seconds.
double lost_to(const Document& document, Cause cause) {
  double seconds = 0;
  for (const Diagnosis& found : document.why.findings)
    if (found.cause == cause) seconds += found.saved_s;
  return seconds;
}

std::vector<ComparedFigure> figures_of(const Documents& documents) {
  std::vector<ComparedFigure> figures;
  const bool equal = difference_of(documents).empty();
  const auto add = [&](const char* name, Better better, bool relative, auto&& value, auto&& text) {
    figures.push_back(figure(name, better, relative, equal, documents, value, text));
  };
  const auto time = [&](const char* name, auto&& ns) {
    add(name, Better::lower, true, ns, words_of_time);
    if (sharing(documents) != nullptr) figures.back().best = -1;
  };
  time("wall time", [](const Document& d) { return d.idle.wall_ns; });
  time("computing, busiest rank", [](const Document& d) {
    std::int64_t most = 0;
    for (const RankIdle& rank : d.idle.ranks) most = std::max(most, rank.compute);
    return most;
  });
  time("waiting, all ranks", [](const Document& d) {
    return d.idle.total([](const RankIdle& rank) { return rank.wait_ns; });
  });
  if (std::none_of(documents.begin(), documents.end(),
                   [](const Document* d) { return d->why.ranks.empty(); }))
    time("wall time lost to imbalance",
         [](const Document& d) { return 1e9 * lost_to(d, Cause::imbalance); });
  time("exposed communication, worst rank",
       [](const Document& d) { return 1e9 * d.balance.exposed_s; });
  const bool predicted = std::all_of(documents.begin(), documents.end(),
                                     [](const Document* d) { return d->balance.predicted; });
  const auto share = [&](const char* name, double WorkTable::*of) {
    add(
        name, Better::higher, false, [of](const Document& d) { return d.balance.*of; },
        words_of_share);
  };
  if (predicted) share("balance ceiling, predicted", &WorkTable::predicted_balance_ceiling);
  if (!std::all_of(documents.begin(), documents.end(), is_ideal))
    share("balance ceiling, measured", &WorkTable::measured_balance_ceiling);
  add("bytes sent, all ranks", Better::lower, true, bytes_sent, words_of_bytes);
  return figures;
}

// Return a recording's name among others: what tells it from them.
std::string name_among(const Document& document, const Documents& documents) {
  const RunInfo& run = document.trace.info;
  const auto differs = [&](auto&& of) {
    return std::any_of(documents.begin(), documents.end(),
                       [&](const Document* d) { return of(d->trace.info) != of(run); });
  };
  std::string name = run.partition;
  if (differs([](const RunInfo& r) { return r.scheme; })) name += " by " + run.scheme;
  if (differs([](const RunInfo& r) { return r.mask; })) name += ", " + run.mask;
  if (differs([](const RunInfo& r) { return r.shape.seqlen; }))
    name += fmt::format(", {} rows", run.shape.seqlen);
  if (differs([](const RunInfo& r) { return r.kv_buffers; }) && run.kv_buffers > 0)
    name += fmt::format(", {} buffers", run.kv_buffers);
  return name;
}

// Return the end of the path where a run was read, of so many parts: its file, or the folder of its
// ranks' profiles.
std::string place_of(const Trace& trace, int parts) {
  std::string path = trace.path;
  const std::size_t slash = path.find_last_of('/');
  if (trace.info.backend == "profile" && slash != std::string::npos && path.substr(0, slash) != ".")
    path.resize(slash);
  std::size_t at = path.size();
  for (int i = 0; i < parts && at != std::string::npos && at > 0; ++i)
    at = path.find_last_of('/', at - 1);
  return at < path.size() ? path.substr(at + 1) : path;
}

// Return names that are all different: what differs, and the file where that is not enough.
std::vector<std::string> names_of(const Documents& documents) {
  std::vector<std::string> names;
  for (const Document* d : documents)
    names.push_back(name_among(*d, documents) + (is_predicted(*d) ? ", predicted" : ""));
  const std::vector<std::string> short_names = names;
  const auto shared = [](const std::vector<std::string>& all, const std::string& name) {
    return std::count(all.begin(), all.end(), name) > 1;
  };
  for (const int parts : {1, 2}) {
    const std::vector<std::string> before = names;
    for (std::size_t i = 0; i < names.size(); ++i)
      if (shared(before, names[i]))
        names[i] = short_names[i] + " \u00b7 " + place_of(documents[i]->trace, parts);
  }
  const std::vector<std::string> with_places = names;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (shared(with_places, names[i])) names[i] += fmt::format(" ({})", i + 1);
  return names;
}

std::string headline_of(const Documents& documents) {
  const auto ceiling = [](const Document* d) { return d->balance.predicted_balance_ceiling; };
  // Ceilings say how much sooner a run ends only if all have the same pairs.
  const RunInfo& run = documents[0]->trace.info;
  for (const Document* d : documents)
    if (!d->balance.predicted || d->trace.info.mask != run.mask || d->trace.info.shape != run.shape)
      return "";
  const auto [worst, best] = std::minmax_element(
      documents.begin(), documents.end(),
      [&](const Document* a, const Document* b) { return ceiling(a) < ceiling(b); });
  const double factor = ceiling(*best) / ceiling(*worst);
  if (documents.size() < 2) return "";
  if (!(factor >= 1.01))
    return fmt::format("All are balanced alike: ranks could be busy {} of the time.",
                       words_of_share(ceiling(*best)));
  // Name all that are as good as the best.
  std::vector<std::string> names;
  for (const Document* d : documents) {
    const std::string name = name_among(*d, documents);
    const bool named = std::find(names.begin(), names.end(), name) != names.end();
    if (ceiling(d) >= 0.995 * ceiling(*best) && !named) names.push_back(name);
  }
  return fmt::format(
      "{}{} could finish {} times sooner than {}: {} ranks could be busy {} of the time instead of "
      "{}.",
      sharing(documents) != nullptr ? "With a core for each rank, " : "", listed(names, " and "),
      words_of_factor(factor), name_among(**worst, documents), names.size() == 1 ? "its" : "their",
      words_of_share(ceiling(*best)), words_of_share(ceiling(*worst)));
}

std::string remark_of(const Documents& documents) {
  if (std::all_of(documents.begin(), documents.end(), is_ideal))
    return "Times are simulated: the counted work of each run, on ranks that are alike and have a "
           "core each.";
  const RunInfo* run = sharing(documents);
  if (run == nullptr) return "";
  return fmt::format("{} ranks shared {}: times show how they took turns, so none is called best.",
                     run->world_size, counted(run->machine->cores, "core"));
}

// Return the owner of the block that each rank attends at each step of the axis, -1 for none.
std::vector<int> owners_of(const Document& document) {
  const WorkTable& balance = document.balance;
  std::vector<int> owners(balance.cells.size(), -1);
  for_each_slice(document.trace, Lane::compute, [&](int rank, const TraceEvent& slice) {
    const int step = axis_step(slice, document.axis.forward_steps());
    if (step >= 0 && step < balance.steps) owners[rank * balance.steps + step] = slice.kv_owner;
  });
  return owners;
}

std::string words_of_change(double seconds) {
  return (seconds < 0 ? "-" : "+") + words_of_time(1e9 * std::abs(seconds));
}

void find_parts(const Document& from, const Document& to, Difference& made) {
  // The last are of transfers that nothing hides, and of causes that hold the run up together.
  std::array<double, kCauseCount + 2> changes{};
  for (const auto& [document, sign] : {std::pair(&from, -1), {&to, 1}}) {
    if (from.why.ranks.empty() || to.why.ranks.empty()) break;  // not explained
    for (std::size_t cause = 0; cause < kCauseCount; ++cause)
      changes[cause] += sign * lost_to(*document, static_cast<Cause>(cause));
    changes[kCauseCount] += sign * document->why.transfers_s;
    changes[kCauseCount + 1] += sign * document->why.together_s;
  }
  double rest = made.to_s - made.from_s;
  constexpr double kLeast = 0.005;  // of the longer run
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (!(std::abs(changes[i]) >= kLeast * std::max(made.from_s, made.to_s))) continue;
    rest -= changes[i];
    made.parts.push_back({i < kCauseCount    ? words_of(static_cast<Cause>(i))
                          : i == kCauseCount ? "transfers"
                                             : "causes in combination",
                          changes[i]});
  }
  std::stable_sort(made.parts.begin(), made.parts.end(), [](const auto& a, const auto& b) {
    return std::abs(a.seconds) > std::abs(b.seconds);
  });
  made.parts.push_back({made.parts.empty() ? "no cause explains it" : "all else", rest});
}

}  // namespace

Difference difference_between(const Document& from, const Document& to) {
  Difference made;
  made.refusal = difference_of({&from, &to});
  const WorkTable &before = from.balance, &after = to.balance;
  if (made.refusal.empty() && (before.ranks != after.ranks || before.steps != after.steps))
    made.refusal = "ranks or steps";
  if (made.refusal.empty() && !(from.trace.info.is_whole() && to.trace.info.is_whole()))
    made.refusal = "how they ended";
  if (!made.refusal.empty()) return made;
  made.from_s = before.wall_s;
  made.to_s = after.wall_s;
  find_parts(from, to, made);
  made.headline = fmt::format("{} instead of {}: ", words_of_time(1e9 * made.to_s),
                              words_of_time(1e9 * made.from_s));
  std::vector<std::string> words;
  for (const Difference::Part& part : made.parts)
    words.push_back(words_of_change(part.seconds) + " " + part.name);
  made.headline += listed(words, ", ");

  made.change = after;
  const std::vector<int> owners = owners_of(from), other = owners_of(to);
  for (std::size_t i = 0; i < made.change.cells.size(); ++i) {
    WorkCell& cell = made.change.cells[i];
    if (owners[i] != other[i]) ++made.unpaired;
    for (const auto figure : kWorkFigures)
      cell.*figure = owners[i] == other[i] && cell.has(figure) && before.cells[i].has(figure)
                         ? cell.*figure - before.cells[i].*figure
                         : 0;
  }
  return made;
}

Comparison compare(const std::vector<const Document*>& documents) {
  Documents ours;
  for (const Document* document : documents)
    if (document->trace.is_ring) ours.push_back(document);
  Comparison comparison;
  if (ours.empty()) return comparison;
  comparison.figures = figures_of(ours);
  comparison.headline = headline_of(ours);
  comparison.remark = remark_of(ours);
  comparison.names = names_of(ours);
  for (const Document* document : ours)
    comparison.differences.push_back(difference_between(*ours[0], *document));
  if (const std::string different = difference_of(ours); !different.empty()) {
    comparison.unequal = different;
    comparison.headline = fmt::format(
        "These runs differ in {}, so their figures are shown without ratios and without a best.",
        different);
  }
  return comparison;
}

}  // namespace ringscope::viz

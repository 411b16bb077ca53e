#include "core/tools/sim/sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/base/text.h"
#include "core/tools/sim/scenario_rows.h"

namespace ringscope {

namespace {

constexpr std::string_view kSeparators = " \t\n;,";

enum class Takes { words, integers, numbers };

// What the sweep needs to know of a setting's row.
struct SweptRow {
  std::string name;
  Takes takes = Takes::words;
};

template <class T>
constexpr Takes takes_of(const T&) {
  if constexpr (std::is_integral_v<T> || std::is_same_v<T, PaceOf<Scenario>>)
    return Takes::integers;
  else if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, BandwidthOf<Scenario>>)
    return Takes::numbers;
  else
    return Takes::words;
}

std::vector<SweptRow> swept_rows() {
  std::vector<SweptRow> rows;
  Scenario any;
  describe(any, [&](const MemberRow& row, const auto& member) {
    if (row.is_swept) rows.push_back({std::string(row.name), takes_of(member)});
  });
  return rows;
}

[[noreturn]] void refuse(const SweptRow& row, std::string_view text, const std::string& accepted) {
  throw InputError(fmt::format("{}: '{}' given; accepted: {}", row.name, text, accepted));
}

void check_value(const SweptRow& row, std::string_view text) {
  Scenario unused;
  read_member(unused, row.name, text, row.name);
}

// Return the number that a setting of numbers is given, or none for a word among them.
std::optional<double> number_of(const SweptRow& row, std::string_view text) {
  check_value(row, text);
  if (row.takes == Takes::words) return std::nullopt;
  return row.takes == Takes::integers ? std::optional<double>(parse_size(text))
                                      : parse_number<double>(text);
}

std::string number_text(double number) { return fmt::format("{:.12g}", number); }

// Return the numbers of FIRST:LAST:*FACTOR or FIRST:LAST:+STEP.
std::vector<std::string> range_of(const SweptRow& row, std::string_view range) {
  const std::vector<std::string_view> parts = split(range, ':');
  const bool is_whole = parts.size() == 3 && parts[2].size() > 1;
  const auto by = is_whole ? parse_number<double>(parts[2].substr(1)) : std::nullopt;
  const bool by_factor = is_whole && parts[2][0] == '*';
  const double first = number_of(row, parts[0]).value_or(0),
               last = is_whole ? number_of(row, parts[1]).value_or(0) : first;
  if (!by || !std::isfinite(*by) || last < first || (!by_factor && parts[2][0] != '+') ||
      (by_factor ? *by <= 1 || first <= 0 : *by <= 0))
    refuse(row, range, "a number, or a range of them, FIRST:LAST:*FACTOR or FIRST:LAST:+STEP");
  // A range whose steps do not reach the end exactly stops below it. One whose steps do reaches it
  // in spite of rounding.
  const double limit = last * (1 + 1e-9);
  std::vector<std::string> values;
  for (std::size_t i = 0; i <= kMostSweptValues; ++i) {
    const auto k = static_cast<double>(i);
    double number = by_factor ? first * std::pow(*by, k) : first + k * *by;
    if (number > limit) return values;
    number = std::min(row.takes == Takes::integers ? std::round(number) : number, last);
    std::string text = number_text(number);
    if (values.empty() || values.back() != text) values.push_back(std::move(text));
  }
  refuse(row, range, fmt::format("up to {} values", kMostSweptValues));
}

// Split a list. In a mask, a word that begins with a digit continues a list of documents.
std::vector<std::string> words_of(const SweptRow& row, std::string_view list) {
  std::vector<std::string> words;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find_first_of(kSeparators), list.size());
    const std::string word(list.substr(0, end));
    const bool goes_on = row.name == "mask" && end > 0 && word[0] >= '0' && word[0] <= '9';
    if (goes_on && !words.empty()) {
      words.back() += "," + word;
    } else if (end > 0) {
      words.push_back(word);
    }
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return words;
}

SweptAxis axis_of(const SweptRow& row, std::string_view list) {
  SweptAxis axis{row.name, {}};
  const auto add = [&](const std::string& value) {
    if (std::find(axis.values.begin(), axis.values.end(), value) != axis.values.end())
      refuse(row, value, "each value once");
    if (axis.values.size() == kMostSweptValues)
      refuse(row, value, fmt::format("up to {} values", kMostSweptValues));
    axis.values.push_back(value);
  };
  for (const std::string& word : words_of(row, list)) {
    if (row.takes != Takes::words && word.find(':') != word.npos) {
      for (const std::string& value : range_of(row, word)) add(value);
    } else {
      const std::optional<double> number = number_of(row, word);
      add(number ? number_text(*number) : word);
    }
  }
  if (axis.values.empty()) check_value(row, "");
  return axis;
}

bool is_name_character(char c) { return (c >= 'a' && c <= 'z') || c == '-' || c == '_'; }

}  // namespace

std::string swept_names() {
  std::string names;
  for (const SweptRow& row : swept_rows()) names += (names.empty() ? "" : ", ") + row.name;
  return names;
}

std::vector<SweptAxis> parse_sweep(std::string_view text) {
  std::vector<SweptAxis> axes;
  const std::size_t first_equals = text.find('=');
  const auto name_before = [&](std::size_t equals) {
    std::size_t begin = equals;
    while (begin > 0 && is_name_character(text[begin - 1])) --begin;
    return begin;
  };
  const std::size_t begin = first_equals == std::string_view::npos ? 0 : name_before(first_equals);
  if (first_equals == std::string_view::npos ||
      text.substr(0, begin).find_first_not_of(kSeparators) != std::string_view::npos)
    throw InputError(
        fmt::format("'{}' given; accepted: NAME=VALUE,... of {}", text, swept_names()));
  const std::vector<SweptRow> rows = swept_rows();
  std::size_t points = 1;
  for (std::size_t equals = first_equals; equals != std::string_view::npos;) {
    const std::size_t name = name_before(equals), next = text.find('=', equals + 1);
    const std::size_t end = next == std::string_view::npos ? text.size() : name_before(next);
    const std::string_view given = text.substr(name, equals - name);
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const SweptRow& known) { return known.name == given; });
    if (row == rows.end())
      throw InputError(fmt::format("'{}' given; accepted: {}", given, swept_names()));
    for (const SweptAxis& axis : axes)
      if (axis.setting == given) refuse(*row, text.substr(name, end - name), "it once");
    const std::string_view list = text.substr(equals + 1, end - equals - 1);
    axes.push_back(axis_of(*row, list));
    points *= axes.back().values.size();
    if (points > kMostSweptPoints)
      refuse(*row, list, fmt::format("up to {} combinations of values", kMostSweptPoints));
    equals = next;
  }
  return axes;
}

void apply(const SweptAxis& axis, std::size_t at, Scenario& scenario) {
  read_member(scenario, axis.setting, axis.values[at], axis.setting);
}

namespace {

// Return the approximate cost of simulating a point, in (rank, step)s.
double cost_of(const SweepPoint& point) {
  const double ranks = point.scenario.job.world_size;
  return point.why ? 1 : 1000 + ranks * ranks * (point.scenario.job.backward ? 2 : 1);
}

std::string number(double value) { return fmt::format("{}", value); }

// The columns of a table besides the settings that can be swept.
constexpr std::pair<const char*, double Figures::*> kFigureColumns[] = {
    {"wall_s", &Figures::wall_s},
    {"forward_s", &Figures::forward_s},
    {"backward_s", &Figures::backward_s},
    {"compute_s", &Figures::compute_s},
    {"wait_s", &Figures::wait_s},
    {"exposed_s", &Figures::exposed_s},
    {"efficiency", &Figures::efficiency},
    {"imbalance", &Figures::imbalance},
    {"balance_ceiling", &Figures::balance_ceiling},
    {"closed_form_s", &Figures::closed_form_s},
    {"peak_bytes", &Figures::peak_bytes}};

using Cells = std::vector<std::string>;

Cells cells_of(const SweepPoint& point) {
  Cells cells;
  describe(point.scenario, [&](const MemberRow& row, const auto& member) {
    if (row.is_swept) cells.push_back(text_of(member));
  });
  for (const auto& [name, member] : kFigureColumns)
    cells.push_back(point.why ? "" : number(point.figures.*member));
  cells.push_back(point.why.value_or(""));
  return cells;
}

bool same_work(const Scenario& a, const Scenario& b) {
  return a.job.shape.seqlen == b.job.shape.seqlen && a.job.world_size == b.job.world_size &&
         a.job.partition.name() == b.job.partition.name() && a.job.mask.name() == b.job.mask.name();
}

// Turn the wheels to the next combination. Return false after the last.
bool turn(std::vector<std::size_t>& at, const std::vector<SweptAxis>& axes) {
  for (std::size_t i = at.size(); i-- > 0;) {
    if (++at[i] < axes[i].values.size()) return true;
    at[i] = 0;
  }
  return false;
}

}  // namespace

SweepTable points_of(const Scenario& base, const std::vector<SweptAxis>& axes) {
  SweepTable table{axes, {}};
  std::vector<std::size_t> at(axes.size());
  do {
    SweepPoint point{base, at, {}, {}};
    for (std::size_t i = 0; i < axes.size(); ++i) apply(axes[i], at[i], point.scenario);
    validate(point.scenario.job.shape);
    point.scenario.job.mask.for_seqlen(point.scenario.job.shape.seqlen);
    Problem& job = point.scenario.job;
    if (!job.partition.is_searched() || job.world_size <= kMostSearchedRanks)
      deal_out(job, point.scenario.granularity);
    check(point.scenario);
    point.why = obstacle(point.scenario);
    table.points.push_back(std::move(point));
  } while (turn(at, axes));
  return table;
}

void run_sweep(SweepTable& table, const std::function<void(double)>& progress) {
  double cost = 0, done = 0;
  std::optional<Work> work;  // of the point before
  const Scenario* last = nullptr;
  for (const SweepPoint& point : table.points) cost += cost_of(point);
  for (SweepPoint& point : table.points) {
    if (!point.why) {
      if (!work || !same_work(*last, point.scenario)) work = work_of(point.scenario);
      last = &point.scenario;
      point.figures = run_scenario(point.scenario, *work);
    }
    done += cost_of(point);
    if (progress) progress(done / cost);
  }
}

std::string sweep_csv(const SweepTable& table,
                      const std::vector<std::pair<std::string, std::string>>& constants) {
  Cells names, values;
  describe(table.points.front().scenario, [&](const MemberRow& row, const auto&) {
    if (row.is_swept) names.push_back(key_of(row));
  });
  for (const auto& [name, member] : kFigureColumns) names.push_back(name);
  names.push_back("why_not");
  for (const auto& [name, value] : constants) {
    names.push_back(name);
    values.push_back(value);
  }
  std::string text;
  const auto line = [&](Cells cells) {
    for (std::string& cell : cells) cell = csv_field(cell);
    text += fmt::format("{}\n", fmt::join(cells, ","));
  };
  line(names);
  for (const SweepPoint& point : table.points) {
    Cells cells = cells_of(point);
    cells.insert(cells.end(), values.begin(), values.end());
    line(cells);
  }
  return text;
}

}  // namespace ringscope

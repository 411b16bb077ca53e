#include "core/tools/sim/sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/base/text.h"

namespace ringscope {

namespace {

constexpr std::string_view kSeparators = " \t\n;,";

// The numbers that a setting accepts.
struct Numbers {
  bool whole;
  double least, most;
  const char* accepted;
};

std::string number(double value) { return fmt::format("{}", value); }

// What a sweep knows of a setting: its column in a table, the numbers that it takes (none: names),
// how a value is set, and what it is in a scenario.
struct SettingRow {
  const char* column;
  std::optional<Numbers> numbers;
  void (*set)(Scenario& scenario, const SweptValue& value);
  std::string (*text)(const Scenario& scenario);
};

void set_scheme_of(Scenario& scenario, const SweptValue& value) {
  if (value.text == name_of(Scheme::two_level))
    scenario.job.scheme = Scheme::two_level;  // of the machine's nodes
  else
    set_scheme(scenario.job, value.text);
}

void set_buffers(Scenario& scenario, const SweptValue& value) {
  scenario.pace = value.text == kInStep ? Pace::in_step : Pace::buffers;
  if (scenario.pace == Pace::buffers) scenario.job.kv_buffers = static_cast<int>(value.number);
}

void set_bandwidth(Scenario& scenario, const SweptValue& value) {
  scenario.rates.bytes_per_s = value.number * 1e9;
  scenario.cpu = nullptr;  // a measured machine has its own bandwidth
}

// In the order of Setting.
const SettingRow kRows[] = {
    {"seqlen", Numbers{true, 1, static_cast<double>(kMaxSeqlen), "an integer from 1 to 2147483648"},
     [](Scenario& s, const SweptValue& v) { s.job.shape.seqlen = static_cast<Index>(v.number); },
     [](const Scenario& s) { return std::to_string(s.job.shape.seqlen); }},
    {"world_size", Numbers{true, 1, 2147483647, "an integer from 1 to 2147483647"},
     [](Scenario& s, const SweptValue& v) { s.job.world_size = static_cast<int>(v.number); },
     [](const Scenario& s) { return std::to_string(s.job.world_size); }},
    {"partition", std::nullopt,
     [](Scenario& s, const SweptValue& v) { s.job.partition = PartitionSpec::parse(v.text); },
     [](const Scenario& s) { return std::string(partition_name(s)); }},
    {"scheme", std::nullopt, set_scheme_of,
     [](const Scenario& s) { return std::string(name_of(s.job.scheme)); }},
    {"mask", std::nullopt,
     [](Scenario& s, const SweptValue& v) { s.job.mask = MaskSpec::parse(v.text); },
     [](const Scenario& s) { return s.job.mask.name(); }},
    {"kv_buffers", Numbers{true, 2, 1000000, "an integer from 2 to 1000000, or in-step"},
     set_buffers,
     [](const Scenario& s) { return has_buffers(s) ? std::to_string(s.job.kv_buffers) : ""; }},
    {"bandwidth_gb_per_s", Numbers{false, 1e-9, 1e12, "GB/s, more than 0, up to 1e12"},
     set_bandwidth, [](const Scenario& s) { return number(s.rates.bytes_per_s / 1e9); }},
    {"jitter", Numbers{false, 0, 1e6, "a number from 0 to 1e6"},
     [](Scenario& s, const SweptValue& v) { s.jitter = v.number; },
     [](const Scenario& s) { return number(s.jitter); }}};

const SettingRow& row_of(Setting setting) { return kRows[static_cast<int>(setting)]; }

[[noreturn]] void refuse(Setting setting, std::string_view text, const std::string& accepted) {
  throw InputError(fmt::format("{} '{}' given; accepted: {}", name_of(setting), text, accepted));
}

double number_in(const Numbers& numbers, Setting setting, std::string_view text) {
  auto value = parse_number<double>(text);
  if (setting == Setting::seqlen) value = parse_size(text);
  if (!value || !std::isfinite(*value) || *value < numbers.least || *value > numbers.most ||
      (numbers.whole && *value != std::floor(*value)))
    refuse(setting, text, numbers.accepted);
  return *value;
}

SweptValue value_of(double number) { return {fmt::format("{:.12g}", number), number}; }

// Return the numbers of FIRST:LAST:*FACTOR or FIRST:LAST:+STEP.
std::vector<SweptValue> range_of(const Numbers& numbers, Setting setting, std::string_view range) {
  const std::vector<std::string_view> parts = split(range, ':');
  const bool is_whole = parts.size() == 3 && parts[2].size() > 1;
  const auto by = is_whole ? parse_number<double>(parts[2].substr(1)) : std::nullopt;
  const bool by_factor = is_whole && parts[2][0] == '*';
  const double first = number_in(numbers, setting, parts[0]),
               last = is_whole ? number_in(numbers, setting, parts[1]) : first;
  if (!by || !std::isfinite(*by) || last < first || (!by_factor && parts[2][0] != '+') ||
      (by_factor ? *by <= 1 || first <= 0 : *by <= 0))
    refuse(setting, range,
           fmt::format("{}, or a range of them, FIRST:LAST:*FACTOR or FIRST:LAST:+STEP",
                       numbers.accepted));
  // A range whose steps do not reach the end exactly stops below it. One whose steps do reaches it
  // in spite of rounding.
  const double limit = last * (1 + 1e-9);
  std::vector<SweptValue> values;
  for (std::size_t i = 0; i <= kMostSweptValues; ++i) {
    const auto k = static_cast<double>(i);
    double number = by_factor ? first * std::pow(*by, k) : first + k * *by;
    if (number > limit) return values;
    number = std::min(numbers.whole ? std::round(number) : number, last);
    if (values.empty() || values.back().number != number) values.push_back(value_of(number));
  }
  refuse(setting, range, fmt::format("up to {} values", kMostSweptValues));
}

// Split a list. In a mask, a word that begins with a digit continues a list of documents.
std::vector<std::string> words_of(Setting setting, std::string_view list) {
  std::vector<std::string> words;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find_first_of(kSeparators), list.size());
    const std::string word(list.substr(0, end));
    const bool goes_on = setting == Setting::mask && end > 0 && word[0] >= '0' && word[0] <= '9';
    if (goes_on && !words.empty()) {
      words.back() += "," + word;
    } else if (end > 0) {
      words.push_back(word);
    }
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return words;
}

SweptAxis axis_of(Setting setting, std::string_view list) {
  const auto& numbers = row_of(setting).numbers;
  SweptAxis axis{setting, {}};
  const auto add = [&](const SweptValue& value) {
    for (const SweptValue& other : axis.values)
      if (other.text == value.text) refuse(setting, value.text, "each value once");
    if (axis.values.size() == kMostSweptValues)
      refuse(setting, value.text, fmt::format("up to {} values", kMostSweptValues));
    axis.values.push_back(value);
  };
  for (const std::string& word : words_of(setting, list)) {
    if (numbers && word.find(':') != word.npos) {
      for (const SweptValue& value : range_of(*numbers, setting, word)) add(value);
    } else if (numbers && !(setting == Setting::kv_buffers && word == kInStep)) {
      add(value_of(number_in(*numbers, setting, word)));
    } else {
      Scenario unused;
      try {
        apply(setting, {word}, unused);
      } catch (const InputError& error) {
        throw InputError(fmt::format("{} {}", name_of(setting), error.what()));
      }
      add({word});
    }
  }
  if (axis.values.empty()) refuse(setting, "", numbers ? numbers->accepted : "names");
  return axis;
}

bool is_name_character(char c) { return (c >= 'a' && c <= 'z') || c == '-' || c == '_'; }

}  // namespace

std::vector<SweptAxis> parse_sweep(std::string_view text) {
  std::vector<SweptAxis> axes;
  const std::size_t first_equals = text.find('=');
  const auto name_before = [&](std::size_t equals) {
    std::size_t begin = equals;
    while (begin > 0 && is_name_character(text[begin - 1])) --begin;
    return begin;
  };
  constexpr const char* kAccepted =
      "NAME=VALUE,... of seqlen, world-size, partition, scheme, mask, kv-buffers, bandwidth, "
      "jitter";
  const std::size_t begin = first_equals == std::string_view::npos ? 0 : name_before(first_equals);
  if (first_equals == std::string_view::npos ||
      text.substr(0, begin).find_first_not_of(kSeparators) != std::string_view::npos)
    throw InputError(fmt::format("'{}' given; accepted: {}", text, kAccepted));
  std::size_t points = 1;
  for (std::size_t equals = first_equals; equals != std::string_view::npos;) {
    const std::size_t name = name_before(equals), next = text.find('=', equals + 1);
    const std::size_t end = next == std::string_view::npos ? text.size() : name_before(next);
    const Setting setting = parse_name(text.substr(name, equals - name), kAllSettings);
    for (const SweptAxis& axis : axes)
      if (axis.setting == setting) refuse(setting, text.substr(name, end - name), "it once");
    const std::string_view list = text.substr(equals + 1, end - equals - 1);
    axes.push_back(axis_of(setting, list));
    points *= axes.back().values.size();
    if (points > kMostSweptPoints)
      refuse(setting, list, fmt::format("up to {} combinations of values", kMostSweptPoints));
    equals = next;
  }
  return axes;
}

void apply(Setting setting, const SweptValue& value, Scenario& scenario) {
  row_of(setting).set(scenario, value);
}

namespace {

// Return the approximate cost of simulating a point, in (rank, step)s.
double cost_of(const SweepPoint& point) {
  const double ranks = point.scenario.job.world_size;
  return point.why ? 1 : 1000 + ranks * ranks * (point.scenario.job.backward ? 2 : 1);
}

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
  for (const SettingRow& row : kRows) cells.push_back(row.text(point.scenario));
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
    for (std::size_t i = 0; i < axes.size(); ++i)
      apply(axes[i].setting, axes[i].values[at[i]], point.scenario);
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
  for (const SettingRow& row : kRows) names.push_back(row.column);
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

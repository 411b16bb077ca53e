#include "core/sim/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/text.h"

namespace ringscope {

namespace {

constexpr std::string_view kSeparators = " \t\n;,";
constexpr int kMostRounded = 100000;  // numbers of a range that may round to the same value

// The numbers that a setting accepts.
struct Numbers {
  bool whole = true;
  double least = 1, most = 0;
  const char* accepted = "";
};

std::optional<Numbers> numbers_of(Setting setting) {
  switch (setting) {
    case Setting::seqlen:
      return Numbers{true, 1, static_cast<double>(kMaxSeqlen), "an integer from 1 to 2147483648"};
    case Setting::world_size:
      return Numbers{true, 1, 2147483647, "an integer from 1 to 2147483647"};
    case Setting::kv_buffers:
      return Numbers{true, 2, 1000000, "an integer from 2 to 1000000, or in-step"};
    case Setting::bandwidth:
      return Numbers{false, 1e-9, 1e12, "GB/s, more than 0, up to 1e12"};
    case Setting::jitter:
      return Numbers{false, 0, 1e6, "a number from 0 to 1e6"};
    default:
      return std::nullopt;
  }
}

[[noreturn]] void refuse(Setting setting, std::string_view text, const std::string& accepted) {
  throw InputError(fmt::format("{} '{}' given; accepted: {}", name_of(setting), text, accepted));
}

std::optional<double> as_number(std::string_view text) {
  const auto value = parse_number<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

double number_in(const Numbers& numbers, Setting setting, std::string_view text) {
  std::optional<double> value = as_number(text);
  if (setting == Setting::seqlen) value = parse_size(text);
  if (!value || *value < numbers.least || *value > numbers.most ||
      (numbers.whole && *value != std::floor(*value)))
    refuse(setting, text, numbers.accepted);
  return *value;
}

std::string text_of(double number) { return fmt::format("{:.12g}", number); }

class AxisReader {
 public:
  explicit AxisReader(Setting setting) : numbers_(numbers_of(setting)) { axis_.setting = setting; }

  void read(std::string_view list) {
    for (const std::string& word : words_of(list)) {
      if (numbers_ && std::count(word.begin(), word.end(), ':') > 0) {
        read_range(word);
      } else {
        add(value_of(word));
      }
    }
    if (axis_.values.empty()) refuse(axis_.setting, "", accepted());
  }

  SweptAxis axis() && { return std::move(axis_); }

 private:
  std::string accepted() const {
    if (numbers_)
      return fmt::format("{}, or a range of them, FIRST:LAST:*FACTOR or FIRST:LAST:+STEP",
                         numbers_->accepted);
    return "names";
  }

  // Split a list. In a mask, a word that begins with a digit continues a list of documents.
  std::vector<std::string> words_of(std::string_view list) const {
    std::vector<std::string> words;
    while (!list.empty()) {
      const std::size_t end = std::min(list.find_first_of(kSeparators), list.size());
      if (end > 0) {
        const std::string word(list.substr(0, end));
        const bool goes_on = axis_.setting == Setting::mask && word[0] >= '0' && word[0] <= '9';
        if (goes_on && !words.empty()) {
          words.back() += "," + word;
        } else {
          words.push_back(word);
        }
      }
      list.remove_prefix(std::min(end + 1, list.size()));
    }
    return words;
  }

  SweptValue value_of(const std::string& word) const {
    if (axis_.setting == Setting::kv_buffers && word == kInStep) return {word, 0};
    if (numbers_) {
      const double number = number_in(*numbers_, axis_.setting, word);
      return {text_of(number), number};
    }
    Scenario unused;
    try {
      apply(axis_.setting, {word}, unused);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{} {}", name_of(axis_.setting), error.what()));
    }
    return {word};
  }

  void add(SweptValue value) {
    const auto same = [&](const SweptValue& other) { return other.text == value.text; };
    if (std::any_of(axis_.values.begin(), axis_.values.end(), same))
      refuse(axis_.setting, value.text, "each value once");
    if (axis_.values.size() == kMostSweptValues)
      refuse(axis_.setting, value.text, fmt::format("up to {} values", kMostSweptValues));
    axis_.values.push_back(std::move(value));
  }

  void read_range(std::string_view range) {
    const auto bad = [&] { refuse(axis_.setting, range, accepted()); };
    const std::size_t first_end = range.find(':'), last_end = range.find(':', first_end + 1);
    if (last_end == std::string_view::npos || last_end + 2 >= range.size()) bad();
    const double first = number_in(*numbers_, axis_.setting, range.substr(0, first_end));
    const double last =
        number_in(*numbers_, axis_.setting, range.substr(first_end + 1, last_end - first_end - 1));
    const bool by_factor = range[last_end + 1] == '*';
    const auto by = as_number(range.substr(last_end + 2));
    if ((!by_factor && range[last_end + 1] != '+') || !by || last < first) bad();
    if (by_factor ? *by <= 1 || first <= 0 : *by <= 0) bad();
    // A range whose steps do not reach the end exactly stops below it. One whose steps do reaches
    // it in spite of rounding.
    const double limit = last * (1 + 1e-9);
    double before = -1;
    for (int i = 0;; ++i) {
      double number = by_factor ? first * std::pow(*by, i) : first + i * *by;
      if (number > limit) break;
      if (numbers_->whole) number = std::round(number);
      number = std::min(number, last);
      if (number == before && i < kMostRounded) continue;
      add({text_of(number), number});
      before = number;
    }
  }

  SweptAxis axis_;
  std::optional<Numbers> numbers_;
};

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
    AxisReader reader(setting);
    reader.read(text.substr(equals + 1, end - equals - 1));
    axes.push_back(std::move(reader).axis());
    points *= axes.back().values.size();
    if (points > kMostSweptPoints)
      refuse(setting, text.substr(equals + 1, end - equals - 1),
             fmt::format("up to {} combinations of values", kMostSweptPoints));
    equals = next;
  }
  return axes;
}

void apply(Setting setting, const SweptValue& value, Scenario& scenario) {
  Problem& job = scenario.job;
  switch (setting) {
    case Setting::seqlen:
      job.shape.seqlen = static_cast<Index>(value.number);
      break;
    case Setting::world_size:
      job.world_size = static_cast<int>(value.number);
      break;
    case Setting::partition:
      job.partition = PartitionSpec::parse(value.text);
      break;
    case Setting::scheme:
      if (value.text == name_of(Scheme::two_level)) {
        job.scheme = Scheme::two_level;  // of the machine's nodes
      } else {
        set_scheme(job, value.text);
      }
      break;
    case Setting::mask:
      job.mask = MaskSpec::parse(value.text);
      break;
    case Setting::kv_buffers:
      scenario.pace = value.text == kInStep ? Pace::in_step : Pace::buffers;
      if (scenario.pace == Pace::buffers) job.kv_buffers = static_cast<int>(value.number);
      break;
    case Setting::bandwidth:
      scenario.rates.bytes_per_s = value.number * 1e9;
      scenario.cpu = nullptr;  // a measured machine has its own bandwidth
      break;
    case Setting::jitter:
      scenario.jitter = value.number;
      break;
  }
}

namespace {

// Return the approximate cost of simulating a point, in (rank, step)s.
double cost_of(const SweepPoint& point) {
  const double ranks = point.scenario.job.world_size;
  return point.why ? 1 : 1000 + ranks * ranks * (point.scenario.job.backward ? 2 : 1);
}

std::string number(double value) { return fmt::format("{}", value); }

struct SweepColumn {
  std::string name;
  std::function<std::string(const SweepPoint&)> text;
};

SweepColumn figure(std::string name, double Figures::*member) {
  return {std::move(name),
          [member](const SweepPoint& p) { return p.why ? "" : number(p.figures.*member); }};
}

std::string text_of(const std::vector<Straggler>& slow) {
  std::string list;
  for (const Straggler& one : slow)
    list += fmt::format("{}{}:{}", list.empty() ? "" : ",", one.rank, one.speed);
  return list;
}

std::vector<SweepColumn> all_columns() {
  const auto setting = [](std::string name, auto of) {
    return SweepColumn{std::move(name),
                       [of](const SweepPoint& p) { return fmt::format("{}", of(p.scenario)); }};
  };
  return {
      setting("seqlen", [](const Scenario& s) { return s.job.shape.seqlen; }),
      setting("world_size", [](const Scenario& s) { return s.job.world_size; }),
      setting("partition", partition_name),
      setting("scheme", [](const Scenario& s) { return name_of(s.job.scheme); }),
      setting("mask", [](const Scenario& s) { return s.job.mask.name(); }),
      setting(
          "kv_buffers",
          [](const Scenario& s) { return has_buffers(s) ? std::to_string(s.job.kv_buffers) : ""; }),
      {"bandwidth_gb_per_s",
       [](const SweepPoint& p) { return number(p.scenario.rates.bytes_per_s / 1e9); }},
      setting("jitter", [](const Scenario& s) { return s.jitter; }),
      figure("wall_s", &Figures::wall_s),
      figure("forward_s", &Figures::forward_s),
      figure("backward_s", &Figures::backward_s),
      figure("compute_s", &Figures::compute_s),
      figure("wait_s", &Figures::wait_s),
      figure("exposed_s", &Figures::exposed_s),
      figure("efficiency", &Figures::efficiency),
      figure("imbalance", &Figures::imbalance),
      figure("balance_ceiling", &Figures::balance_ceiling),
      figure("closed_form_s", &Figures::closed_form_s),
      figure("peak_bytes", &Figures::peak_bytes),
      {"why_not", [](const SweepPoint& p) { return p.why.value_or(""); }},
      setting("batch", [](const Scenario& s) { return s.job.shape.batch; }),
      setting("num_heads", [](const Scenario& s) { return s.job.shape.num_heads; }),
      setting("num_heads_kv", [](const Scenario& s) { return s.job.shape.num_heads_kv; }),
      setting("head_dim", [](const Scenario& s) { return s.job.shape.head_dim; }),
      setting("dtype", [](const Scenario& s) { return name_of(s.job.dtype); }),
      setting("backward", [](const Scenario& s) { return s.job.backward ? 1 : 0; }),
      setting("nodes", [](const Scenario& s) { return s.job.nodes; }),
      setting("nics", [](const Scenario& s) { return s.nics; }),
      setting("between", [](const Scenario& s) { return s.between.name; }),
      setting("placement", [](const Scenario& s) { return name_of(s.placement); }),
      setting("stragglers", [](const Scenario& s) { return text_of(s.stragglers); }),
      setting("slow_links", [](const Scenario& s) { return text_of(s.slow_links); }),
      setting("hop_jitter", [](const Scenario& s) { return s.hop_jitter; }),
      setting("cores", [](const Scenario& s) { return s.cores; }),
      setting("step_s", [](const Scenario& s) { return s.step_s; }),
      setting("tile_rows", [](const Scenario& s) { return s.granularity.rows; }),
      setting("tile_keys", [](const Scenario& s) { return s.granularity.keys; }),
      setting("forward_flops", [](const Scenario& s) { return s.rates.forward_flops; }),
      setting("backward_flops", [](const Scenario& s) { return s.rates.backward_flops; }),
  };
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

const SweepPoint& SweepTable::point(const std::vector<std::size_t>& at) const {
  std::size_t index = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) index = index * axes[i].values.size() + at[i];
  return points[index];
}

std::optional<std::size_t> SweepTable::axis_of(Setting setting) const {
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i].setting == setting) return i;
  return std::nullopt;
}

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
  std::optional<Work> work;  // of the point before; finding it may take longer than simulating
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
  static const std::vector<SweepColumn> columns = all_columns();
  std::string text, names, values;
  for (const auto& [name, value] : constants) {
    names += "," + csv_field(name);
    values += "," + csv_field(value);
  }
  const auto line = [&](auto cell, const std::string& rest) {
    for (const SweepColumn& column : columns)
      text += (&column == columns.data() ? "" : ",") + csv_field(cell(column));
    text += rest + "\n";
  };
  line([](const SweepColumn& column) { return column.name; }, names);
  for (const SweepPoint& point : table.points)
    line([&](const SweepColumn& column) { return column.text(point); }, values);
  return text;
}

}  // namespace ringscope

// Turns a table of simulations into charts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "viz/model/session/format.h"
#include "viz/panels/charts/charts.h"

namespace ringscope::viz {
namespace {

constexpr std::size_t kMostCurves = 8;

using At = std::vector<std::size_t>;  // for each axis, the index of one of its values

// The words for a setting whose values are numbers. Other values are names, which need no words.
struct NumberWords {
  Setting setting;
  const char *axis, *before, *behind;  // the axis' title; what stands around a value in a sentence
};
constexpr NumberWords kNumberWords[] = {
    {Setting::seqlen, "seqlen (positions; k = 1024)", "seqlen ", ""},
    {Setting::world_size, "world_size (ranks)", "", " ranks"},
    {Setting::bandwidth, "bandwidth of a link (GB/s)", "", " GB/s"},
    {Setting::jitter, "jitter of computing (mean share)", "jitter ", ""},
    {Setting::kv_buffers, "KV buffers", "", " buffers"}};

const NumberWords* number_words(Setting setting) {
  const auto* const found =
      std::find_if(std::begin(kNumberWords), std::end(kNumberWords),
                   [&](const NumberWords& w) { return w.setting == setting; });
  return found == std::end(kNumberWords) ? nullptr : found;
}
bool has_numbers(Setting setting) { return number_words(setting) != nullptr; }

std::string axis_title(Setting setting) {
  const NumberWords* const words = number_words(setting);
  return words != nullptr ? words->axis : std::string(name_of(setting));
}

std::string short_title(Setting setting) {
  return setting == Setting::world_size ? "world_size" : std::string(name_of(setting));
}

std::string number_text(Setting setting, double number) {
  return setting == Setting::seqlen ? tokens_text(number) : fmt::format("{:.6g}", number);
}

std::string value_text(Setting setting, const SweptValue& value) {
  const bool is_number = has_numbers(setting) && setting != Setting::kv_buffers;
  return is_number ? number_text(setting, value.number) : value.text;
}

// Return a value in words that need no title: "64 ranks", "striped".
std::string value_in_words(Setting setting, const SweptValue& value) {
  const std::string text = value_text(setting, value);
  const NumberWords* const words = number_words(setting);
  if (words == nullptr) return text;
  if (setting == Setting::kv_buffers && value.text == kInStep) return "in step";
  if (setting == Setting::world_size && value.number == 1) return "1 rank";
  return words->before + text + words->behind;
}

class Charts {
 public:
  explicit Charts(const SweepTable& table) : table_(table) {}

  std::vector<CurveChart> all() const {
    // Numbers come before names, and among them settings in their order: seqlen, world_size, others.
    std::size_t first = 0;
    const auto rank_of = [&](std::size_t i) {
      return std::tuple(!several(i), !has_numbers(axis(i).setting), axis(i).setting);
    };
    for (std::size_t i = 1; i < table_.axes.size(); ++i)
      if (rank_of(i) < rank_of(first)) first = i;
    const auto world_size = table_.axis_of(Setting::world_size);
    return {time_chart(first),
            efficiency_chart(world_size && several(*world_size) ? *world_size : first)};
  }

 private:
  const SweptAxis& axis(std::size_t i) const { return table_.axes[i]; }
  bool several(std::size_t i) const { return axis(i).values.size() > 1; }

  // Return all combinations of the values of the axes other than `x`. An axis with numbers
  // contributes at most `most` values.
  std::vector<At> combinations(const std::set<std::size_t>& x, std::size_t most) const {
    std::vector<At> result{At(table_.axes.size(), 0)};
    for (std::size_t i = 0; i < table_.axes.size(); ++i) {
      if (x.contains(i)) continue;
      const std::size_t count = axis(i).values.size();
      std::vector<At> longer;
      for (const At& at : result)
        for (const std::size_t v : some_of(count, has_numbers(axis(i).setting) ? most : count)) {
          longer.push_back(at);
          longer.back()[i] = v;
        }
      result = std::move(longer);
    }
    return result;
  }

  struct Family {
    std::vector<At> members;
    std::string note;                    // the settings that all members share
    std::vector<std::size_t> differing;  // axes that differ
  };

  Family family(const std::set<std::size_t>& x, std::size_t most) const {
    Family family;
    family.members = combinations(x, kMostSweptValues);
    for (std::size_t shades = most; family.members.size() > most && shades > 0; --shades)
      family.members = combinations(x, shades);
    const std::size_t count = family.members.size();
    for (std::size_t i = 0; i < table_.axes.size(); ++i) {
      if (x.contains(i)) continue;
      const bool varies = std::any_of(family.members.begin(), family.members.end(),
                                      [&](const At& at) { return at[i] != family.members[0][i]; });
      if (varies) {
        family.differing.push_back(i);
      } else if (several(i) || !has_numbers(axis(i).setting)) {
        append(family.note, value_in_words(axis(i).setting, axis(i).values[family.members[0][i]]));
      }
    }
    if (count > most) {
      family.members.resize(most);
      append(family.note, fmt::format("the first {} of {}", most, count));
    }
    return family;
  }

  static void append(std::string& list, const std::string& word) {
    list += (list.empty() ? "" : ", ") + word;
  }

  std::string name_of_member(const Family& family, const At& at) const {
    std::string name;
    for (const std::size_t i : family.differing)
      append(name, value_in_words(axis(i).setting, axis(i).values[at[i]]));
    return name;
  }

  // The values of an axis in ascending order: their indices, their places, and their scale.
  struct Across {
    std::vector<std::size_t> order;
    std::vector<double> at;
    ChartScale scale;
  };
  Across across(std::size_t x, int ticks) const {
    const SweptAxis& swept = axis(x);
    Across result;
    for (std::size_t v = 0; v < swept.values.size(); ++v) result.order.push_back(v);
    std::stable_sort(result.order.begin(), result.order.end(), [&](std::size_t a, std::size_t b) {
      return swept.values[a].number < swept.values[b].number;
    });
    // Names stand at equal distances, and so do buffers, because in-step is among them.
    const bool named = !has_numbers(swept.setting) || swept.setting == Setting::kv_buffers;
    for (const std::size_t v : result.order)
      result.at.push_back(named ? static_cast<double>(result.at.size()) : swept.values[v].number);
    result.scale = scale_at(result.at, ticks, [&](double at) {
      return named ? swept.values[result.order[at]].text : number_text(swept.setting, at);
    });
    if (named) result.scale.logarithmic = false;
    return result;
  }

  std::vector<Curve> curves_of(const Family& family, std::size_t x, const Across& across,
                               double Figures::*figure) const {
    std::vector<Curve> curves;
    for (const At& member : family.members) {
      Curve curve{name_of_member(family, member), static_cast<int>(curves.size())};
      for (std::size_t i = 0; i < across.order.size(); ++i) {
        At at = member;
        at[x] = across.order[i];
        const SweepPoint& point = table_.point(at);
        if (!point.why) curve.points.push_back({across.at[i], point.figures.*figure});
      }
      if (curve.points.empty()) curve.name += " (can't be done)";
      curves.push_back(std::move(curve));
    }
    return curves;
  }

  CurveChart time_chart(std::size_t x) const {
    const Family of = family({x}, kMostCurves);
    const Across values = across(x, 10);
    CurveChart chart{"Time of a layer against " + short_title(axis(x).setting),
                     of.note,
                     axis_title(axis(x).setting),
                     values.scale,
                     {},
                     curves_of(of, x, values, &Figures::wall_s)};
    double least = INFINITY, most = 0;
    for (const Curve& curve : chart.curves)
      for (const CurvePoint& point : curve.points) {
        least = std::min(least, point.y);
        most = std::max(most, point.y);
      }
    if (!(least > 0) || !std::isfinite(least)) least = most = 1;
    // Small differences are best seen on a scale from zero.
    chart.y = most < 4 * least ? linear_scale(0, most, 6, tick_time_text)
                               : log_scale(least, most, 10, tick_time_text);
    return chart;
  }

  CurveChart efficiency_chart(std::size_t x) const {
    const Family of = family({x}, kMostCurves);
    const Across values = across(x, 10);
    return {
        "Efficiency (mean computing / time) against " + short_title(axis(x).setting),
        of.note,
        axis_title(axis(x).setting),
        values.scale,
        linear_scale(0, 1, 5, [](double share) { return fmt::format("{:.0f} %", 100 * share); }),
        curves_of(of, x, values, &Figures::efficiency)};
  }

  const SweepTable& table_;
};

std::string faults_text(const Scenario& scenario, bool jitter_is_swept) {
  std::string text;
  if (!jitter_is_swept && scenario.jitter > 0)
    text += fmt::format(", jitter {:g}", scenario.jitter);
  if (scenario.hop_jitter > 0) text += fmt::format(", jitter of hops {:g}", scenario.hop_jitter);
  const std::size_t slow = scenario.stragglers.size();
  if (slow > 0) text += ", " + counted(slow, "straggler");
  return text;
}

}  // namespace

ChartPage page_of(const SweepTable& table, const std::string& machine) {
  const Scenario& scenario = table.points.front().scenario;
  const AttentionShape& s = scenario.job.shape;
  const auto unless_swept = [&](Setting setting, const std::string& text) {
    const auto swept = table.axis_of(setting);
    return swept && table.axes[*swept].values.size() > 1 ? std::string() : ", " + text;
  };
  ChartPage page;
  page.title =
      fmt::format("{} simulations of a layer's attention on {}", table.points.size(), machine);
  page.subtitle =
      fmt::format("{} batch, {} heads ({} kv), head_dim {}, {}", s.batch, s.num_heads,
                  s.num_heads_kv, s.head_dim, name_of(scenario.job.dtype)) +
      unless_swept(Setting::seqlen, fmt::format("seqlen {}", tokens_text(double(s.seqlen)))) +
      unless_swept(Setting::world_size, fmt::format("{} ranks", scenario.job.world_size)) +
      unless_swept(Setting::mask, "mask " + scenario.job.mask.name()) +
      unless_swept(Setting::partition, std::string(partition_name(scenario))) +
      unless_swept(Setting::scheme, std::string(name_of(scenario.job.scheme))) +
      unless_swept(Setting::kv_buffers, has_buffers(scenario)
                                            ? fmt::format("{} KV buffers", scenario.job.kv_buffers)
                                            : "in step") +
      (scenario.job.backward ? ", forward and backward" : ", forward") +
      faults_text(scenario, table.axis_of(Setting::jitter).has_value());
  page.charts = Charts(table).all();
  return page;
}

}  // namespace ringscope::viz

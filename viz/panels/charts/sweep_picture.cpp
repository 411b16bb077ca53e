// Draws the picture of a sweep: it places the charts and draws their curves, maps and bars.

#include "viz/panels/charts/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "viz/model/session/format.h"

namespace ringscope::viz {
namespace {

// ---
// Draw curves, maps of cells, and bars on their axes.

constexpr int kColors = 8;

Color curve_color(const ChartDrawing& d, const Curve& curve) {
  return mix(d.palette.panel, owner_color(d.theme, curve.color % kColors, kColors),
             0.25 + 0.75 * curve.strength);
}

// Round to a whole pixel of the picture, so that the gaps between cells are equal.
float on_pixel(float at) {
  const float scale = ImGui::GetIO().DisplayFramebufferScale.x;
  return std::round(at * scale) / scale;
}

// A stroke is this much wider for each curve that hides it, so that it shows around them.
constexpr float kHalo = 2;

std::vector<ImVec2> points_of(const CurveChart& chart, const Curve& curve, const Box& plot) {
  std::vector<ImVec2> points;
  for (const CurvePoint& point : curve.points)
    points.push_back({x_of(plot, chart.x, point.x), y_of(plot, chart.y, point.y)});
  return points;
}

void draw_all_curves(const ChartDrawing& d, const CurveChart& chart, const Box& plot) {
  std::vector<std::vector<ImVec2>> lines;
  for (const Curve& curve : chart.curves) lines.push_back(points_of(chart, curve, plot));
  // Count the later curves, which are drawn over curve c, that hide its points [k, k + more].
  const auto hidden = [&](std::size_t c, std::size_t k, std::size_t more) {
    float count = 0;
    for (std::size_t other = c + 1; other < lines.size(); ++other) {
      bool same = lines[other].size() == lines[c].size();
      for (std::size_t i = k; same && i <= k + more; ++i)
        same = std::abs(lines[other][i].x - lines[c][i].x) < 1 &&
               std::abs(lines[other][i].y - lines[c][i].y) < 1;
      count += same ? 1 : 0;
    }
    return std::min(count, 3.0f);
  };
  for (std::size_t c = 0; c < lines.size(); ++c) {
    const std::vector<ImVec2>& line = lines[c];
    const Color color = curve_color(d, chart.curves[c]);
    for (std::size_t k = 1; k < line.size(); ++k)
      draw_list().AddLine(line[k - 1], line[k], color, 2 + kHalo * hidden(c, k - 1, 1));
    if (line.size() > 40) continue;
    for (std::size_t k = 0; k < line.size(); ++k) {
      const float halo = kHalo / 2 * hidden(c, k, 0);
      draw_list().AddCircleFilled(line[k], 4.5f + halo, d.palette.panel, 16);
      draw_list().AddCircleFilled(line[k], 3.5f + halo, color, 16);
    }
  }
}

// Go from the background over blue to a warm light, so the ends differ even without colour.
Color heat_color(const ChartDrawing& d, double share) {
  const Palette& p = d.palette;
  const Color ground = mix(p.panel, p.accent, 0.12);
  if (share < 0.5) return mix(ground, p.accent, 2 * share);
  return mix(p.accent, p.playhead, 2 * share - 1);
}

void draw_heat_legend(const ChartDrawing& d, const Box& bar) {
  constexpr int kSteps = 64;
  for (int i = 0; i < kSteps; ++i) {
    const float y0 = bar.y1 - bar.height() * (i + 1) / kSteps;
    const float y1 = bar.y1 - bar.height() * i / kSteps;
    fill({bar.x0, std::floor(y0), bar.x1, std::ceil(y1)}, heat_color(d, (i + 0.5) / kSteps));
  }
  for (const int percent : {0, 50, 100})
    draw_text(d.fonts.small, {bar.x1 + 6, bar.y1 - bar.height() * percent / 100}, {0, 0.5f},
              d.palette.text_dim, fmt::format("{} %", percent));
}

void draw_curves(const ChartDrawing& d, const CurveChart& chart, const Box& box) {
  Box inner = draw_frame(d, box, chart.title, chart.note);
  std::vector<Swatch> swatches;
  for (const Curve& curve : chart.curves) swatches.push_back({curve_color(d, curve), curve.name});
  if (swatches.size() > 1)
    inner.y0 += draw_legend(d.fonts, d.palette, inner.min(), inner.width(), swatches, true);
  const Box plot{inner.x0 + widest_label(d.fonts.small, chart.y.ticks) + kTickGap, inner.y0 + 10,
                 inner.x1 - 18, inner.y1 - 40};
  draw_y_axis(d, chart.y, plot);
  draw_x_axis(d, chart.x, plot, chart.x_title, true);
  draw_all_curves(d, chart, plot);
}

void draw_map(const ChartDrawing& d, const HeatMap& map, const Box& box) {
  Box inner = draw_frame(d, box, map.title, map.note);
  float labels = 0;
  for (const std::string& row : map.rows) labels = std::max(labels, text_width(d.fonts.small, row));
  draw_text(d.fonts.small, {inner.x0, inner.y0}, {0, 0}, d.palette.text, map.y_title);
  const Box plot{inner.x0 + labels + kTickGap, inner.y0 + 20, inner.x1 - 60, inner.y1 - 40};
  const auto columns = static_cast<float>(map.columns.size());
  const auto rows = static_cast<float>(map.rows.size());
  const float width = plot.width() / columns, height = plot.height() / rows;
  const bool with_text = width >= 38 && height >= 15;
  for (std::size_t r = 0; r < map.rows.size(); ++r) {
    const float y1 = plot.y1 - height * r, y0 = y1 - height;
    if (height >= 14 || r % 4 == 0)
      draw_text(d.fonts.small, {plot.x0 - kTickGap, (y0 + y1) / 2}, {1, 0.5f}, d.palette.text_dim,
                map.rows[r]);
    for (std::size_t c = 0; c < map.columns.size(); ++c) {
      const float x0 = plot.x0 + width * c;
      const float gap = on_pixel(1);
      const Box cell{on_pixel(x0), on_pixel(y0), on_pixel(x0 + width) - gap, on_pixel(y1) - gap};
      const double value = map.values[r][c];
      const bool there = !std::isnan(value);
      const Color color = there ? heat_color(d, value) : d.palette.empty_tile;
      fill(cell, color);
      if (with_text)
        draw_text(d.fonts.small, cell.center(), {0.5f, 0.5f},
                  there ? ink_on(color) : d.palette.text_dim,
                  there ? fmt::format("{:.0f} %", 100 * value) : "–");
    }
  }
  ChartScale names = named_scale(map.columns, static_cast<int>(plot.width() / 44));
  // Cells are wide, so a name stands below the middle of its own cell.
  names.low = -0.5;
  names.high += 0.5;
  draw_x_axis(d, names, plot, map.x_title, false);
  draw_heat_legend(d, {plot.x1 + 14, plot.y0, plot.x1 + 24, plot.y1});
}

void draw_bars(const ChartDrawing& d, const BarChart& chart, const Box& box) {
  Box inner = draw_frame(d, box, chart.title, "");
  std::vector<Swatch> swatches;
  for (const BarPart& part : chart.parts) swatches.push_back({d.palette.of(part.kind), part.name});
  inner.y0 += draw_legend(d.fonts, d.palette, inner.min(), inner.width(), swatches);
  float names = 0;
  for (const Bar& bar : chart.bars) names = std::max(names, text_width(d.fonts.text, bar.name));
  const Box plot{inner.x0 + names + 12, inner.y0 + 6, inner.x1 - 80, inner.y1 - 24};
  draw_x_axis(d, chart.x, plot, "", true);
  const float pitch = std::min(plot.height() / chart.bars.size(), 56.0f);
  for (std::size_t b = 0; b < chart.bars.size(); ++b) {
    const Bar& bar = chart.bars[b];
    const float y0 = plot.y0 + pitch * (b + 0.14f), y1 = y0 + 0.72f * pitch;
    draw_text(d.fonts.text, {plot.x0 - 10, (y0 + y1) / 2}, {1, 0.5f}, d.palette.text, bar.name);
    double sum = 0;
    for (std::size_t p = 0; p < bar.parts.size(); ++p) {
      const float x0 = x_of(plot, chart.x, sum), x1 = x_of(plot, chart.x, sum += bar.parts[p]);
      if (x1 > x0) fill({x0, y0, x1, y1}, d.palette.of(chart.parts[p].kind));
    }
    draw_text(d.fonts.text, {x_of(plot, chart.x, sum) + 8, (y0 + y1) / 2}, {0, 0.5f},
              d.palette.text, bar.text);
  }
}

// ---
// Place the page's title and its charts.

constexpr float kChartGap = 20;

// Return `count` boxes beside each other in `box`.
std::vector<Box> beside(const Box& box, std::size_t count) {
  std::vector<Box> boxes;
  const auto n = static_cast<float>(count);
  const float width = (box.width() - kChartGap * (n - 1)) / n;
  for (std::size_t i = 0; i < count; ++i) {
    const float x = box.x0 + i * (width + kChartGap);
    boxes.push_back({x, box.y0, x + width, box.y1});
  }
  return boxes;
}

std::pair<Box, Box> above_each_other(const Box& box, float share) {
  const float y = box.y0 + share * (box.height() - kChartGap);
  return {{box.x0, box.y0, box.x1, y}, {box.x0, y + kChartGap, box.x1, box.y1}};
}

// ---
// Turns a table of simulations into the data of a picture.

constexpr std::size_t kMostCurves = 8, kMostMaps = 3, kMostBars = 24;

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
  explicit Charts(const SweepTable& table) : table_(table) {
    for (std::size_t i = 0; i < table.axes.size(); ++i)
      if (has_numbers(table.axes[i].setting) && table.axes[i].values.size() > 1)
        numbered_.push_back(i);
    // Sort them by setting: seqlen, world_size, then the others.
    std::sort(numbered_.begin(), numbered_.end(), [&](std::size_t a, std::size_t b) {
      return table.axes[a].setting < table.axes[b].setting;
    });
  }

  void fill(SweepPicture& picture) const {
    if (numbered_.empty()) {
      picture.bars.push_back(bars());
      return;
    }
    const std::size_t first = numbered_[0];
    const auto world_size = table_.axis_of(Setting::world_size);
    const bool by_ranks = world_size && table_.axes[*world_size].values.size() > 1;
    picture.curves.push_back(time_chart(first));
    picture.curves.push_back(efficiency_chart(by_ranks ? *world_size : first));
    if (numbered_.size() >= 2) picture.maps = maps(numbered_[0], numbered_[1]);
  }

 private:
  const SweptAxis& axis(std::size_t i) const { return table_.axes[i]; }

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
      } else if (axis(i).values.size() > 1 || !has_numbers(axis(i).setting)) {
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
    std::sort(result.order.begin(), result.order.end(), [&](std::size_t a, std::size_t b) {
      return swept.values[a].number < swept.values[b].number;
    });
    std::vector<std::string> names;
    for (const std::size_t v : result.order) {
      result.at.push_back(swept.setting == Setting::kv_buffers
                              ? static_cast<double>(result.at.size())
                              : swept.values[v].number);
      names.push_back(swept.values[v].text);
    }
    result.scale = swept.setting == Setting::kv_buffers
                       ? named_scale(names, ticks)
                       : scale_at(result.at, ticks, [&](double number) {
                           return number_text(swept.setting, number);
                         });
    return result;
  }

  // Give each combination of names a colour, and each number a shade of it. Without names, each
  // number has its own colour.
  void paint(const Family& family, std::vector<Curve>& curves) const {
    std::vector<At> names, numbers;
    const auto place = [](std::vector<At>& known, const At& one) {
      const auto found = std::find(known.begin(), known.end(), one);
      if (found != known.end()) return static_cast<int>(found - known.begin());
      known.push_back(one);
      return static_cast<int>(known.size()) - 1;
    };
    std::vector<int> shade;
    for (std::size_t c = 0; c < curves.size(); ++c) {
      At name, number;
      for (const std::size_t i : family.differing)
        (has_numbers(axis(i).setting) ? number : name).push_back(family.members[c][i]);
      curves[c].color = place(names, name);
      shade.push_back(place(numbers, number));
    }
    for (std::size_t c = 0; c < curves.size(); ++c) {
      if (names.size() == 1) {
        curves[c].color = shade[c];
      } else {
        curves[c].strength = (shade[c] + 1.0) / numbers.size();
      }
    }
  }

  std::vector<Curve> curves_of(const Family& family, std::size_t x, const Across& across,
                               double Figures::*figure) const {
    std::vector<Curve> curves;
    for (const At& member : family.members) {
      Curve curve{name_of_member(family, member), 0, 1, {}};
      for (std::size_t i = 0; i < across.order.size(); ++i) {
        At at = member;
        at[x] = across.order[i];
        const SweepPoint& point = table_.point(at);
        if (!point.why) curve.points.push_back({across.at[i], point.figures.*figure});
      }
      if (curve.points.empty()) curve.name += " (can't be done)";
      curves.push_back(std::move(curve));
    }
    paint(family, curves);
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

  std::vector<HeatMap> maps(std::size_t x, std::size_t y) const {
    const Family of = family({x, y}, kMostMaps);
    const Across columns = across(x, 1), rows = across(y, 1);
    std::vector<HeatMap> result;
    for (const At& member : of.members) {
      HeatMap map;
      map.title = "Exposed communication / time, rank with the most";
      map.note = name_of_member(of, member);
      if (!of.note.empty()) append(map.note, of.note);
      map.x_title = axis_title(axis(x).setting);
      map.y_title = short_title(axis(y).setting);
      for (const std::size_t c : columns.order)
        map.columns.push_back(value_text(axis(x).setting, axis(x).values[c]));
      for (const std::size_t r : rows.order) {
        map.rows.push_back(value_text(axis(y).setting, axis(y).values[r]));
        map.values.emplace_back();
        for (const std::size_t c : columns.order) {
          At at = member;
          at[x] = c;
          at[y] = r;
          const SweepPoint& point = table_.point(at);
          const double share = point.figures.wall_s > 0
                                   ? std::min(point.figures.exposed_s / point.figures.wall_s, 1.0)
                                   : 0;
          map.values.back().push_back(point.why ? std::numeric_limits<double>::quiet_NaN() : share);
        }
      }
      result.push_back(std::move(map));
    }
    return result;
  }

  BarChart bars() const {
    const Family of = family({}, kMostBars);
    BarChart chart;
    chart.title = "Time of a layer" + (of.note.empty() ? "" : ": " + of.note);
    chart.parts = {{"computing (mean rank)", Kind::compute},
                   {"exposed communication (mean rank)", Kind::send},
                   {"waiting otherwise", Kind::wait}};
    double most = 0;
    for (const At& member : of.members) {
      const SweepPoint& point = table_.point(member);
      const Figures& f = point.figures;
      Bar bar{
          name_of_member(of, member), {}, point.why ? "can't be done" : time_text(f.wall_s * 1e9)};
      const double exposed = std::min(f.mean_exposed_s, f.wall_s - f.compute_s);
      bar.parts = {f.compute_s, exposed, std::max(0.0, f.wall_s - f.compute_s - exposed)};
      most = std::max(most, f.wall_s);
      chart.bars.push_back(std::move(bar));
    }
    chart.x = linear_scale(0, most, 8, tick_time_text);
    return chart;
  }

  const SweepTable& table_;
  std::vector<std::size_t> numbered_;  // axes with several numbers
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

void draw_sweep(const ChartDrawing& drawing, const SweepPicture& picture, const Box& box) {
  const Box page = draw_page(drawing, picture.title, picture.subtitle, box);
  for (const BarChart& chart : picture.bars) draw_bars(drawing, chart, page);
  if (picture.curves.empty()) return;
  if (picture.maps.empty()) {
    const auto boxes = beside(page, picture.curves.size());
    for (std::size_t i = 0; i < boxes.size(); ++i)
      draw_curves(drawing, picture.curves[i], boxes[i]);
    return;
  }
  if (picture.maps.size() == 1) {
    const auto halves = beside(page, 2);
    draw_curves(drawing, picture.curves[0], halves[0]);
    const auto [top, bottom] = above_each_other(halves[1], 0.5f);
    draw_curves(drawing, picture.curves[1], top);
    draw_map(drawing, picture.maps[0], bottom);
    return;
  }
  const auto [top, bottom] = above_each_other(page, 0.5f);
  const auto halves = beside(top, 2);
  for (std::size_t i = 0; i < 2; ++i) draw_curves(drawing, picture.curves[i], halves[i]);
  const auto maps = beside(bottom, picture.maps.size());
  for (std::size_t i = 0; i < maps.size(); ++i) draw_map(drawing, picture.maps[i], maps[i]);
}

SweepPicture picture_of(const SweepTable& table, const std::string& machine) {
  const Scenario& scenario = table.points.front().scenario;
  const AttentionShape& s = scenario.job.shape;
  const auto unless_swept = [&](Setting setting, const std::string& text) {
    const auto swept = table.axis_of(setting);
    return swept && table.axes[*swept].values.size() > 1 ? std::string() : ", " + text;
  };
  SweepPicture picture;
  picture.title =
      fmt::format("{} simulations of a layer's attention on {}", table.points.size(), machine);
  picture.subtitle =
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
  Charts(table).fill(picture);
  return picture;
}

}  // namespace ringscope::viz

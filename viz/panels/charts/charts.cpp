#include "viz/panels/charts/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/model/session/format.h"

namespace ringscope::viz {
namespace {

// Return the stride at which at most `most` of `count` things are written.
std::size_t every(std::size_t count, int most) {
  const auto fit = static_cast<std::size_t>(std::max(most, 1));
  return std::max<std::size_t>((count + fit - 1) / fit, 1);
}

// Return the largest gap of a list over the smallest.
double unevenness(const std::vector<double>& at) {
  double least = INFINITY, most = 0;
  for (std::size_t i = 1; i < at.size(); ++i) {
    least = std::min(least, at[i] - at[i - 1]);
    most = std::max(most, at[i] - at[i - 1]);
  }
  return most / least;
}

// ---
// Draw curves and bars on their axes.

constexpr float kMargin = 28, kHead = 64, kChartGap = 20;
constexpr float kChartPad = 16, kTitle = 22, kNote = 18;
constexpr float kTickGap = 8;  // between a plot and its tick labels
constexpr int kColors = 8;

Color curve_color(const ChartDrawing& d, const Curve& curve) {
  const Color color = owner_color(d.theme, curve.color % kColors, kColors);
  return curve.dots ? with_alpha(color, curve.points.size() > 400 ? 0.32 : 0.55) : color;
}

float widest_label(const ImFont* font, const std::vector<Tick>& ticks) {
  float width = 0;
  for (const Tick& tick : ticks) width = std::max(width, text_width(font, tick.label));
  return width;
}

// Draw a chart's frame, title and note. Return the box that is left inside.
Box draw_frame(const ChartDrawing& d, const Box& box, const std::string& title,
               const std::string& note) {
  fill(box, d.palette.panel, 8);
  outline(box, d.palette.panel_border, 8);
  const float x = box.x0 + kChartPad, y = box.y0 + kChartPad - 4;
  const float width = box.width() - 2 * kChartPad;
  draw_text(d.fonts.strong, {x, y}, {0, 0}, d.palette.text, title, width);
  draw_text(d.fonts.small, {x, y + kTitle}, {0, 0}, d.palette.text_dim, note, width);
  const float head = kTitle + (note.empty() ? 0 : kNote);
  return {x, box.y0 + kChartPad + head, box.x1 - kChartPad, box.y1 - kChartPad};
}

// Draw the tick labels that have room below the plot, and the title below them, in 40 pixels.
void draw_x_axis(const ChartDrawing& d, const ChartScale& scale, const Box& plot,
                 const std::string& title) {
  float free_from = -1e9f;
  for (const Tick& tick : scale.ticks) {
    const float x = std::floor(x_of(plot, scale, tick.at));
    draw_list().AddLine({x, plot.y0}, {x, plot.y1}, d.palette.grid);
    const float half = text_width(d.fonts.small, tick.label) / 2;
    if (x - half < free_from) continue;
    draw_text(d.fonts.small, {x, plot.y1 + kTickGap}, {0.5f, 0}, d.palette.text_dim, tick.label);
    free_from = x + half + 8;
  }
  draw_text(d.fonts.small, {(plot.x0 + plot.x1) / 2, plot.y1 + kTickGap + 18}, {0.5f, 0},
            d.palette.text, title);
}

void draw_curve(const ChartDrawing& d, const CurveChart& chart, const Curve& curve,
                const Box& plot) {
  const Color color = curve_color(d, curve);
  std::vector<ImVec2> line;
  for (const CurvePoint& point : curve.points)
    line.push_back({x_of(plot, chart.x, point.x), y_of(plot, chart.y, point.y)});
  const int count = line.size();
  if (!curve.dots) draw_list().AddPolyline(line.data(), count, color, 0, 2.5f);
  if (!curve.dots && count > 40) return;  // dots would cover the line
  const float radius = !curve.dots ? 3.5f : count > 1000 ? 1.4f : count > 100 ? 2.0f : 3.0f;
  for (const ImVec2 at : line) draw_list().AddCircleFilled(at, radius, color, 16);
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
  draw_x_axis(d, chart.x, plot, chart.x_title);
  for (const Curve& curve : chart.curves) draw_curve(d, chart, curve, plot);
  for (const ChartMark& mark : chart.marks) {
    const float y = std::floor(y_of(plot, chart.y, mark.y)) + 0.5f;
    draw_list().AddLine({plot.x0, y}, {plot.x1, y}, d.palette.playhead, 1.5f);
    const float width = text_width(d.fonts.text, mark.name);
    fill({plot.x1 - width - 10, y + 4, plot.x1, y + 24}, with_alpha(d.palette.panel, 0.85), 3);
    draw_text(d.fonts.text, {plot.x1 - 5, y + 5}, {1, 0}, d.palette.playhead, mark.name);
  }
}

void draw_bars(const ChartDrawing& d, const BarChart& chart, const Box& box) {
  Box inner = draw_frame(d, box, chart.title, "");
  std::vector<Swatch> swatches;
  for (const BarPart& part : chart.parts) swatches.push_back({d.palette.of(part.kind), part.name});
  inner.y0 += draw_legend(d.fonts, d.palette, inner.min(), inner.width(), swatches);
  float names = 0;
  for (const Bar& bar : chart.bars) names = std::max(names, text_width(d.fonts.text, bar.name));
  const Box plot{inner.x0 + names + 12, inner.y0 + 6, inner.x1 - 80, inner.y1 - 24};
  draw_x_axis(d, chart.x, plot, "");
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
// The losses of a training run.

constexpr std::size_t kMostRaw = 4000, kMostSmooth = 800;
constexpr double kNothingKnown = 5.545177444479562;  // log(256): all bytes are equally likely

// Return the value at step `at` of a straight line fitted to the losses around it, where near
// losses weigh most. Unlike a mean, it is unbiased where the curve begins and ends. A run's first
// steps change as much as hundreds of later ones, so the stretch grows with the step. It stays
// short compared to the whole run.
double smoothed(const std::vector<CurvePoint>& points, std::size_t at) {
  const auto count = static_cast<double>(points.size());
  const double reach = std::clamp(0.2 * at, 2.0, std::max(2.0, 0.04 * count)) + 1;
  const auto first = static_cast<std::size_t>(std::max(0.0, std::ceil(at - reach)));
  const auto last = std::min(points.size() - 1, static_cast<std::size_t>(at + reach));
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (std::size_t i = first; i <= last; ++i) {
    const double x = static_cast<double>(i) - at, share = std::abs(x) / reach;
    const double weight = std::pow(1 - share * share * share, 3), y = points[i].y;
    w += weight, wx += weight * x, wy += weight * y, wxx += weight * x * x, wxy += weight * x * y;
  }
  const double spread = w * wxx - wx * wx;
  return spread > 1e-12 * w * w ? (wxx * wy - wx * wxy) / spread : wy / w;
}

std::string words_of_losses(const LossCurve& curve, const std::vector<CurvePoint>& points) {
  const std::size_t steps = curve.losses.size();
  if (points.empty()) return steps == 0 ? "no steps" : "no step's loss is a number";
  const double last = points.back().y;
  std::string text = counted(steps, "step") + ": ";
  if (steps > 1) text += fmt::format("from {:.3f} to ", points.front().y);
  text += fmt::format("{:.3f} nats, or {:.2f} bits a byte", last, last / std::log(2.0));
  if (last < curve.unigram_entropy)
    text += fmt::format("; {:.2f} below what byte frequencies alone give",
                        curve.unigram_entropy - last);
  if (points.size() < steps)
    text += fmt::format("; {} losses are no numbers", steps - points.size());
  return text;
}

}  // namespace

double ChartScale::share(double value) const {
  if (high <= low) return 0.5;
  if (!logarithmic) return (value - low) / (high - low);
  return std::log(value / low) / std::log(high / low);
}

ChartScale linear_scale(double low, double high, int count, const ValueText& text) {
  ChartScale scale;
  if (!(high > low)) high = low == 0 ? 1 : low + std::abs(low);
  const double step = round_step((high - low) / std::max(count, 1));
  scale.low = std::floor(low / step + 1e-9) * step;
  const auto steps = std::llround(std::ceil((high - scale.low) / step - 1e-9));
  for (long long i = 0; i <= steps; ++i) {
    const double at = scale.low + i * step;
    scale.ticks.push_back({at, text(at)});
    scale.high = at;
  }
  return scale;
}

ChartScale log_scale(double low, double high, int count, const ValueText& text) {
  ChartScale scale;
  scale.logarithmic = true;
  const double room = high > low ? std::max(std::pow(high / low, 0.05), 1.05) : 2;
  scale.low = low / room;
  scale.high = high * room;
  std::vector<double> powers, all;
  for (double power = std::pow(10, std::floor(std::log10(scale.low))); power <= scale.high;
       power *= 10)
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double at = factor * power;
      if (at < scale.low || at > scale.high) continue;
      all.push_back(at);
      if (factor == 1) powers.push_back(at);
    }
  const bool few = all.size() <= static_cast<std::size_t>(count) + 2;
  const std::vector<double>& ticks = few ? all : powers;
  const std::size_t stride = every(ticks.size(), count + 2);
  for (std::size_t i = 0; i < ticks.size(); i += stride)
    scale.ticks.push_back({ticks[i], text(ticks[i])});
  return scale;
}

ChartScale scale_at(const std::vector<double>& values, int count, const ValueText& text) {
  ChartScale scale;
  scale.low = values.front();
  scale.high = values.back();
  if (values.front() > 0 && values.size() > 2) {
    std::vector<double> logarithms;
    for (const double value : values) logarithms.push_back(std::log(value));
    scale.logarithmic = unevenness(logarithms) < unevenness(values) * (1 - 1e-9);
  }
  const std::size_t stride = every(values.size(), count);
  for (std::size_t i = 0; i < values.size(); i += stride)
    scale.ticks.push_back({values[i], text(values[i])});
  return scale;
}

std::string tick_time_text(double seconds) {
  if (seconds == 0) return "0";
  return words_of_time(1e9 * seconds);
}

std::string tokens_text(double count) {
  constexpr double kMi = kKi * kKi;
  if (count >= kMi && std::fmod(count, kMi / 4) == 0) return fmt::format("{:g}M", count / kMi);
  if (count >= kKi && std::fmod(count, kKi) == 0) return fmt::format("{:.0f}k", count / kKi);
  return fmt::format("{:.10g}", count);
}

float x_of(const Box& plot, const ChartScale& scale, double value) {
  return plot.x0 + static_cast<float>(scale.share(value)) * plot.width();
}
float y_of(const Box& plot, const ChartScale& scale, double value) {
  return plot.y1 - static_cast<float>(scale.share(value)) * plot.height();
}

void draw_y_axis(const ChartDrawing& d, const ChartScale& scale, const Box& plot) {
  for (const Tick& tick : scale.ticks) {
    const float y = std::floor(y_of(plot, scale, tick.at));
    draw_list().AddLine({plot.x0, y}, {plot.x1, y}, d.palette.grid);
    draw_text(d.fonts.small, {plot.x0 - kTickGap, y}, {1, 0.5f}, d.palette.text_dim, tick.label);
  }
}

ChartPage page_of(const LossCurve& curve) {
  std::vector<CurvePoint> points;
  for (std::size_t i = 0; i < curve.losses.size(); ++i)
    if (std::isfinite(curve.losses[i]))
      points.push_back({static_cast<double>(curve.first_step) + i, curve.losses[i]});
  Curve raw{"loss of a step's bytes", 0, true}, smooth{"smoothed", 1};
  for (const std::size_t i : some_of(points.size(), kMostRaw)) raw.points.push_back(points[i]);
  for (const std::size_t i : some_of(points.size(), kMostSmooth))
    smooth.points.push_back({points[i].x, smoothed(points, i)});

  double least = INFINITY, most = -INFINITY;
  for (const CurvePoint& point : points) {
    least = std::min(least, point.y);
    most = std::max(most, point.y);
  }
  const double entropy = curve.unigram_entropy;
  if (points.empty()) least = 0, most = kNothingKnown;
  if (std::isfinite(entropy) && entropy > 0) {
    least = std::min(least, entropy);
    most = std::max(most, entropy);
  }
  // A run that starts from nothing shows the loss of knowing nothing.
  if (most > 0.9 * kNothingKnown) most = std::max(most, kNothingKnown);
  // The axis starts at zero only if losses come near it.
  if (least < 0.3 * most) least = std::min(least, 0.0);
  const double steps = static_cast<double>(std::max<std::size_t>(curve.losses.size(), 2)) - 1;
  const auto first = static_cast<double>(curve.first_step);
  CurveChart chart{
      .title = "Loss in nats a byte, against steps",
      .note = "",
      .x_title = "step",
      .x = linear_scale(first == 1 ? 0 : first, first + steps, 10,
                        [](double step) { return fmt::format("{:.10g}", step); }),
      .y = linear_scale(least, most, 8, [](double loss) { return fmt::format("{:.4g}", loss); }),
      .curves = {raw, smooth}};
  // The axis ends where the run does; otherwise part of its last interval would stay empty.
  chart.x.high = first + steps;
  std::erase_if(chart.x.ticks, [&](const Tick& tick) { return tick.at > chart.x.high; });
  const auto mark = [&](const std::string& name, double loss) {
    if (loss > std::max(chart.y.low, 0.0) && loss <= chart.y.high)
      chart.marks.push_back({fmt::format("{} = {:.3f}", name, loss), loss});
  };
  mark("knows nothing: log 256", kNothingKnown);
  mark("knows only how often each byte occurs: unigram entropy", entropy);
  return {curve.title, words_of_losses(curve, points), {chart}};
}

void draw_charts(const ChartDrawing& d, const ChartPage& page, const Box& box) {
  fill(box, d.palette.background);
  const float width = box.width() - 2 * kMargin;
  draw_text(d.fonts.title, {box.x0 + kMargin, box.y0 + 16}, {0, 0}, d.palette.text, page.title,
            width);
  draw_text(d.fonts.text, {box.x0 + kMargin, box.y0 + 42}, {0, 0}, d.palette.text_dim,
            page.subtitle, width);
  const Box room{box.x0 + kMargin, box.y0 + kHead + 12, box.x1 - kMargin, box.y1 - kMargin};
  for (const BarChart& chart : page.bars) draw_bars(d, chart, room);
  const auto count = static_cast<float>(page.curves.size());
  const float each = (room.width() - kChartGap * (count - 1)) / count;
  for (std::size_t i = 0; i < page.curves.size(); ++i) {
    const float x = room.x0 + i * (each + kChartGap);
    draw_curves(d, page.curves[i], {x, room.y0, x + each, room.y1});
  }
}

}  // namespace ringscope::viz

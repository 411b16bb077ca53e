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
// Draw curves on their axes.

constexpr float kMargin = 28, kHead = 64, kChartGap = 20;
constexpr float kChartPad = 16, kTitle = 22, kNote = 18;
constexpr float kTickGap = 8;  // between a plot and its tick labels
constexpr int kColors = 8;

Color curve_color(const ChartDrawing& d, const Curve& curve) {
  return owner_color(d.theme, curve.color % kColors, kColors);
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
  draw_list().AddPolyline(line.data(), count, color, 0, 2.5f);
  if (count > 40) return;  // dots would cover the line
  for (const ImVec2 at : line) draw_list().AddCircleFilled(at, 3.5f, color, 16);
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

void draw_charts(const ChartDrawing& d, const ChartPage& page, const Box& box) {
  fill(box, d.palette.background);
  const float width = box.width() - 2 * kMargin;
  draw_text(d.fonts.title, {box.x0 + kMargin, box.y0 + 16}, {0, 0}, d.palette.text, page.title,
            width);
  draw_text(d.fonts.text, {box.x0 + kMargin, box.y0 + 42}, {0, 0}, d.palette.text_dim,
            page.subtitle, width);
  const Box room{box.x0 + kMargin, box.y0 + kHead + 12, box.x1 - kMargin, box.y1 - kMargin};
  const auto count = static_cast<float>(page.charts.size());
  const float each = (room.width() - kChartGap * (count - 1)) / count;
  for (std::size_t i = 0; i < page.charts.size(); ++i) {
    const float x = room.x0 + i * (each + kChartGap);
    draw_curves(d, page.charts[i], {x, room.y0, x + each, room.y1});
  }
}

}  // namespace ringscope::viz

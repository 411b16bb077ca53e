// Draws the picture of a sweep: it places the charts and draws their curves, maps and bars.

#include "viz/panels/charts/sweep_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/model/session/format.h"

namespace ringscope::viz {

namespace {

// ---
// Draw curves, maps of cells, and bars on their axes.

constexpr float kLegendLine = 20, kSwatch = 18;
constexpr int kColors = 8;

struct Swatch {
  Color color;
  std::string name;
};

// Draw the legend in as many lines as it needs. Return its height.
float draw_legend(const ChartDrawing& d, const std::vector<Swatch>& swatches, const Box& box,
                  bool as_lines) {
  if (swatches.size() < 2) return 0;
  std::vector<float> widths;
  for (const Swatch& swatch : swatches)
    widths.push_back(kSwatch + 6 + text_width(d.fonts.small, swatch.name));
  const std::vector<ImVec2> places = in_lines(widths, box.width(), 18, kLegendLine);
  for (std::size_t i = 0; i < swatches.size(); ++i) {
    const float x = box.x0 + places[i].x, middle = box.y0 + places[i].y + kLegendLine / 2 - 2;
    if (as_lines) {
      draw_list().AddLine({x, middle}, {x + kSwatch, middle}, swatches[i].color, 2);
      draw_list().AddCircleFilled({x + kSwatch / 2, middle}, 3.5f, swatches[i].color, 12);
    } else {
      fill({x + 4, middle - 5, x + 14, middle + 5}, swatches[i].color, 2);
    }
    draw_text(d.fonts.small, {x + kSwatch + 6, middle}, {0, 0.5f}, d.palette.text,
              swatches[i].name);
  }
  return places.back().y + kLegendLine + 4;
}

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
    const float y0 = bar.y1 - bar.height() * static_cast<float>(i + 1) / kSteps;
    const float y1 = bar.y1 - bar.height() * static_cast<float>(i) / kSteps;
    fill({bar.x0, std::floor(y0), bar.x1, std::ceil(y1)}, heat_color(d, (i + 0.5) / kSteps));
  }
  for (const int percent : {0, 50, 100})
    draw_text(d.fonts.small,
              {bar.x1 + 6, bar.y1 - bar.height() * static_cast<float>(percent) / 100}, {0, 0.5f},
              d.palette.text_dim, fmt::format("{} %", percent));
}

void draw_curves(const ChartDrawing& d, const CurveChart& chart, const Box& box) {
  Box inner = draw_frame(d, box, chart.title, chart.note);
  std::vector<Swatch> swatches;
  for (const Curve& curve : chart.curves) swatches.push_back({curve_color(d, curve), curve.name});
  inner.y0 += draw_legend(d, swatches, inner, true);
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
    const float y1 = plot.y1 - height * static_cast<float>(r), y0 = y1 - height;
    if (height >= 14 || r % 4 == 0)
      draw_text(d.fonts.small, {plot.x0 - kTickGap, (y0 + y1) / 2}, {1, 0.5f}, d.palette.text_dim,
                map.rows[r]);
    for (std::size_t c = 0; c < map.columns.size(); ++c) {
      const float x0 = plot.x0 + width * static_cast<float>(c);
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
  inner.y0 += draw_legend(d, swatches, inner, false);
  float names = 0;
  for (const Bar& bar : chart.bars) names = std::max(names, text_width(d.fonts.text, bar.name));
  const Box plot{inner.x0 + names + 12, inner.y0 + 6, inner.x1 - 80, inner.y1 - 24};
  draw_x_axis(d, chart.x, plot, "", true);
  const float pitch = std::min(plot.height() / static_cast<float>(chart.bars.size()), 56.0f);
  for (std::size_t b = 0; b < chart.bars.size(); ++b) {
    const Bar& bar = chart.bars[b];
    const float y0 = plot.y0 + pitch * (static_cast<float>(b) + 0.14f), y1 = y0 + 0.72f * pitch;
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
    const float x = box.x0 + static_cast<float>(i) * (width + kChartGap);
    boxes.push_back({x, box.y0, x + width, box.y1});
  }
  return boxes;
}

std::pair<Box, Box> above_each_other(const Box& box, float share) {
  const float y = box.y0 + share * (box.height() - kChartGap);
  return {{box.x0, box.y0, box.x1, y}, {box.x0, y + kChartGap, box.x1, box.y1}};
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

}  // namespace ringscope::viz

#include "viz/panels/chart_drawing.h"

#include <algorithm>
#include <cmath>

namespace ringscope::viz {
namespace {

constexpr float kMargin = 28, kHead = 64;
constexpr float kChartPad = 16, kTitle = 22, kNote = 18;

}  // namespace

Box draw_page(const ChartDrawing& d, const std::string& title, const std::string& subtitle,
              const Box& box) {
  fill(d.list, box, d.palette.background);
  const float width = box.width() - 2 * kMargin;
  draw_text(d.list, d.fonts.title, {box.x0 + kMargin, box.y0 + 16}, {0, 0}, d.palette.text,
            fitted(d.fonts.title, title, width));
  draw_text(d.list, d.fonts.text, {box.x0 + kMargin, box.y0 + 42}, {0, 0}, d.palette.text_dim,
            fitted(d.fonts.text, subtitle, width));
  return {box.x0 + kMargin, box.y0 + kHead + 12, box.x1 - kMargin, box.y1 - kMargin};
}

Box draw_frame(const ChartDrawing& d, const Box& box, const std::string& title,
               const std::string& note) {
  fill(d.list, box, d.palette.panel, 8);
  outline(d.list, box, d.palette.panel_border, 8);
  const float width = box.width() - 2 * kChartPad;
  draw_text(d.list, d.fonts.strong, {box.x0 + kChartPad, box.y0 + kChartPad - 4}, {0, 0},
            d.palette.text, fitted(d.fonts.strong, title, width));
  if (!note.empty())
    draw_text(d.list, d.fonts.small, {box.x0 + kChartPad, box.y0 + kChartPad - 4 + kTitle}, {0, 0},
              d.palette.text_dim, fitted(d.fonts.small, note, width));
  const float head = kTitle + (note.empty() ? 0 : kNote);
  return {box.x0 + kChartPad, box.y0 + kChartPad + head, box.x1 - kChartPad, box.y1 - kChartPad};
}

float x_of(const Box& plot, const ChartScale& scale, double value) {
  return plot.x0 + static_cast<float>(scale.share(value)) * plot.width();
}
float y_of(const Box& plot, const ChartScale& scale, double value) {
  return plot.y1 - static_cast<float>(scale.share(value)) * plot.height();
}

float widest_label(const ImFont* font, const std::vector<Tick>& ticks) {
  float width = 0;
  for (const Tick& tick : ticks) width = std::max(width, text_width(font, tick.label));
  return width;
}

void draw_x_axis(const ChartDrawing& d, const ChartScale& scale, const Box& plot,
                 const std::string& title, bool with_grid) {
  float free_from = -1e9f;
  for (const Tick& tick : scale.ticks) {
    const float x = std::floor(x_of(plot, scale, tick.at));
    if (with_grid) d.list.AddLine({x, plot.y0}, {x, plot.y1}, d.palette.grid);
    const float half = text_width(d.fonts.small, tick.label) / 2;
    if (x - half < free_from) continue;
    draw_text(d.list, d.fonts.small, {x, plot.y1 + kTickGap}, {0.5f, 0}, d.palette.text_dim,
              tick.label);
    free_from = x + half + 8;
  }
  draw_text(d.list, d.fonts.small, {(plot.x0 + plot.x1) / 2, plot.y1 + kTickGap + 18}, {0.5f, 0},
            d.palette.text, title);
}

void draw_y_axis(const ChartDrawing& d, const ChartScale& scale, const Box& plot) {
  for (const Tick& tick : scale.ticks) {
    const float y = std::floor(y_of(plot, scale, tick.at));
    d.list.AddLine({plot.x0, y}, {plot.x1, y}, d.palette.grid);
    draw_text(d.list, d.fonts.small, {plot.x0 - kTickGap, y}, {1, 0.5f}, d.palette.text_dim,
              tick.label);
  }
}

}  // namespace ringscope::viz

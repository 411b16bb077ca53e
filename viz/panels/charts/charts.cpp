#include "viz/panels/charts/charts.h"

#include <algorithm>
#include <cmath>

namespace ringscope::viz {
namespace {

constexpr float kTickGap = 8;  // between a plot and its tick labels

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

float x_of(const Box& plot, const ChartScale& scale, double value) {
  return plot.x0 + static_cast<float>(scale.share(value)) * plot.width();
}
float y_of(const Box& plot, const ChartScale& scale, double value) {
  return plot.y1 - static_cast<float>(scale.share(value)) * plot.height();
}

void draw_y_axis(const Fonts& fonts, const Palette& palette, const ChartScale& scale,
                 const Box& plot) {
  for (const Tick& tick : scale.ticks) {
    const float y = std::floor(y_of(plot, scale, tick.at));
    draw_list().AddLine({plot.x0, y}, {plot.x1, y}, palette.grid);
    draw_text(fonts.small, {plot.x0 - kTickGap, y}, {1, 0.5f}, palette.text_dim, tick.label);
  }
}

}  // namespace ringscope::viz

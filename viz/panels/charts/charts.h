// Axes of charts: scales with round values, and the lines and labels that show them.
#pragma once

#include <imgui.h>

#include <functional>
#include <string>
#include <vector>

#include "viz/model/timeline/palette.h"
#include "viz/panels/drawing.h"

namespace ringscope::viz {

struct Tick {
  double at = 0;  // the value
  std::string label;
};

using ValueText = std::function<std::string(double)>;

struct ChartScale {
  bool logarithmic = false;
  double low = 0, high = 1;
  std::vector<Tick> ticks{};

  // Return where a value lies: 0 at low, 1 at high.
  double share(double value) const;
};

// Return a scale between round numbers at or below `low` and at or above `high`. Its ticks are 1, 2
// or 5 times a power of ten apart, and about `count` of them.
ChartScale linear_scale(double low, double high, int count, const ValueText& text);

float x_of(const Box& plot, const ChartScale& scale, double value);
float y_of(const Box& plot, const ChartScale& scale, double value);
// Draw labels left of the plot, and lines across it.
void draw_y_axis(const Fonts& fonts, const Palette& palette, const ChartScale& scale,
                 const Box& plot);

}  // namespace ringscope::viz

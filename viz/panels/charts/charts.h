// Pictures of sweeps: curves as plain data, the functions that draw them, and the scales with
// round values that label an axis.
#pragma once

#include <imgui.h>

#include <functional>
#include <string>
#include <vector>

#include "core/sim/sweep.h"
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
// Return a scale a little wider than the positive values need, for distant values or a single one.
// Its ticks are 1, 2 and 5 of every decade, or powers of ten where those would be too many.
ChartScale log_scale(double low, double high, int count, const ValueText& text);
// Return a scale with ticks at the ascending values themselves, at most `count` of them. It is
// logarithmic if that spaces the values more evenly.
ChartScale scale_at(const std::vector<double>& values, int count, const ValueText& text);

// Return "50 µs" or "1 s", with no more digits than needed.
std::string tick_time_text(double seconds);
// Return "8k" for 8192, "1M" for 1048576, "1000" for 1000.
std::string tokens_text(double count);

struct ChartDrawing {
  const Fonts& fonts;
  const Palette& palette;
  Theme theme;
};

float x_of(const Box& plot, const ChartScale& scale, double value);
float y_of(const Box& plot, const ChartScale& scale, double value);
// Draw labels left of the plot, and lines across it.
void draw_y_axis(const ChartDrawing& drawing, const ChartScale& scale, const Box& plot);

// ---
// A page of charts beside each other.

struct CurvePoint {
  double x = 0, y = 0;
};

struct Curve {
  std::string name;
  int color = 0;  // index of 8 distinct colours
  std::vector<CurvePoint> points{};
};

struct CurveChart {
  std::string title, note;  // what the chart shows; the values of other settings
  std::string x_title;
  ChartScale x, y;
  std::vector<Curve> curves;
};

struct ChartPage {
  std::string title, subtitle;
  std::vector<CurveChart> charts{};
};

// Return the charts of a table with at least one point. `machine` names the simulated machine.
//
//   time against seqlen, or else the first other setting with several numbers, or else names, with a
//   curve for each combination of the settings with names and of as many other numbers as stay readable
//   efficiency against world_size, or else the same setting
ChartPage page_of(const SweepTable& table, const std::string& machine);

// Draw the page over all of `box`.
void draw_charts(const ChartDrawing& drawing, const ChartPage& page, const Box& box);

}  // namespace ringscope::viz

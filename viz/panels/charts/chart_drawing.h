// Scales the values along a chart's axis, and picks the round values that label it.
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
  std::vector<Tick> ticks;

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
// Return a scale of names at 0, 1, 2, ..., of which at most `count` are written.
ChartScale named_scale(const std::vector<std::string>& names, int count);

// Return "50 µs" or "1 s", with no more digits than needed.
std::string tick_time_text(double seconds);
// Return "8k" for 8192, "1M" for 1048576, "1000" for 1000.
std::string tokens_text(double count);

// ---
// The drawings of charts share the page, the frames and the axes.

struct ChartDrawing {
  const Fonts& fonts;
  const Palette& palette;
  Theme theme;
};

inline constexpr float kTickGap = 8;  // between a plot and its tick labels

// Draw the page and its title over all of `box`. Return the box that is left.
Box draw_page(const ChartDrawing& drawing, const std::string& title, const std::string& subtitle,
              const Box& box);

// Draw a chart's frame, title and note. Return the box that is left inside.
Box draw_frame(const ChartDrawing& drawing, const Box& box, const std::string& title,
               const std::string& note);

float x_of(const Box& plot, const ChartScale& scale, double value);
float y_of(const Box& plot, const ChartScale& scale, double value);

float widest_label(const ImFont* font, const std::vector<Tick>& ticks);
// Draw the tick labels that have room below the plot, and the title below them, in 40 pixels.
void draw_x_axis(const ChartDrawing& drawing, const ChartScale& scale, const Box& plot,
                 const std::string& title, bool with_grid);
// Draw labels left of the plot, and lines across it.
void draw_y_axis(const ChartDrawing& drawing, const ChartScale& scale, const Box& plot);

}  // namespace ringscope::viz

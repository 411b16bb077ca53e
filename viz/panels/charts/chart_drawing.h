// How values lie along a chart's axis, and which of them are written there: round ones.
#pragma once

#include <imgui.h>

#include <functional>
#include <string>
#include <vector>

#include "viz/model/timeline/palette.h"
#include "viz/panels/drawing.h"

namespace ringscope::viz {

struct Tick {
  double at = 0;  // a value
  std::string label;
};

using ValueText = std::function<std::string(double)>;

struct ChartScale {
  bool logarithmic = false;
  double low = 0, high = 1;
  std::vector<Tick> ticks;

  // Where a value lies: 0 at low, 1 at high.
  double share(double value) const;
};

// From 0, or below the lowest value, to a round number above the highest: 1, 2 or 5 times a power
// of ten apart, about `count` of them.
ChartScale linear_scale(double low, double high, int count, const ValueText& text);
// A little more than positive values take, and the round numbers there: 1, 2, 5 of every decade, or
// powers of ten where these would be many. For values that are far apart, or one.
ChartScale log_scale(double low, double high, int count, const ValueText& text);
// The values themselves, ascending, as far as at most `count` of them; by logarithm where they lie
// more evenly so.
ChartScale scale_at(const std::vector<double>& values, int count, const ValueText& text);
// Names, at 0, 1, 2, ...
ChartScale named_scale(const std::vector<std::string>& names, int count);

// "50 µs", "1 s": no more digits than there are.
std::string tick_time_text(double seconds);
// "8k" for 8192, "1M" for 1048576, "1000" for 1000.
std::string tokens_text(double count);

// ---
// What the pictures of charts share: the page, frames, and axes.

struct ChartDrawing {
  ImDrawList& list;
  const Fonts& fonts;
  const Palette& palette;
  Theme theme;
};

inline constexpr float kTickGap = 8;  // between a plot and its ticks' labels

// The ground of `box`, which is all of the picture, with a title over it. Returns what is left.
Box draw_page(const ChartDrawing& drawing, const std::string& title, const std::string& subtitle,
              const Box& box);

// A chart's frame, its title and note. Returns what is left inside.
Box draw_frame(const ChartDrawing& drawing, const Box& box, const std::string& title,
               const std::string& note);

float x_of(const Box& plot, const ChartScale& scale, double value);
float y_of(const Box& plot, const ChartScale& scale, double value);

float widest_label(const ImFont* font, const std::vector<Tick>& ticks);
// Labels below the plot that have room, and the title below them: 40 pixels are enough.
void draw_x_axis(const ChartDrawing& drawing, const ChartScale& scale, const Box& plot,
                 const std::string& title, bool with_grid);
// Labels left of the plot, and lines across it.
void draw_y_axis(const ChartDrawing& drawing, const ChartScale& scale, const Box& plot);

}  // namespace ringscope::viz

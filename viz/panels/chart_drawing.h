// What the pictures of charts share: the page, frames, and axes.
#pragma once

#include <imgui.h>

#include <string>

#include "viz/model/palette.h"
#include "viz/panels/chart_scale.h"
#include "viz/panels/drawing.h"

namespace ringscope::viz {

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

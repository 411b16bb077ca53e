// Draws a single picture into memory with ImGui, but without a window.
#pragma once

#include <functional>

#include "viz/model/timeline/palette.h"
#include "viz/panels/charts/chart_drawing.h"

namespace ringscope::viz {

// Return a picture of width x height pixels. It has more than one pixel per point because pages
// show pictures reduced. `draw` fills the box.
Image still_image(int width, int height,
                  const std::function<void(const ChartDrawing& drawing, const Box& box)>& draw);

}  // namespace ringscope::viz

// A picture that is drawn once, into memory: ImGui without a window.
#pragma once

#include <functional>

#include "viz/model/timeline/palette.h"
#include "viz/panels/charts/chart_drawing.h"

namespace ringscope::viz {

// Of width x height pixels, more than one to a point, since pages show pictures smaller than they
// are. `draw` fills the box.
Image still_image(int width, int height,
                  const std::function<void(const ChartDrawing& drawing, const Box& box)>& draw);

}  // namespace ringscope::viz

// Draws single pictures, of losses and of sweeps, with ImGui but without a window.
#pragma once

#include <functional>
#include <string>

#include "core/sim/sweep.h"
#include "core/train/loss_csv.h"
#include "viz/model/timeline/palette.h"
#include "viz/panels/charts/chart_drawing.h"

namespace ringscope::viz {

// ---
// Draws a single picture into memory with ImGui, but without a window.

// Return a picture of width x height pixels. It has more than one pixel per point because pages
// show pictures reduced. `draw` fills the box.
Image still_image(int width, int height,
                  const std::function<void(const ChartDrawing& drawing, const Box& box)>& draw);

// ---
// Writes the picture of a training run's losses, or of a sweep, to a file.

// Return a picture of 1600 x 900 pixels.
Image loss_image(const LossCurve& curve);

// Write the picture as PNG, whole or not at all. Throw InputError if the path can't be written to,
// and RunError if the disk is full.
void write_loss_picture(const LossCurve& curve, const std::string& path);

// ---
// `ringscope simulate --sweep ... --picture FILE.png` writes the picture of a sweep.

// Return a picture of 1600 x 1000 pixels. `machine` names the simulated machine.
Image sweep_image(const SweepTable& table, const std::string& machine);

// Write the picture as PNG, whole or not at all. Throw InputError if the path can't be written to,
// and RunError if the disk is full.
void write_sweep_picture(const SweepTable& table, const std::string& machine,
                         const std::string& path);

}  // namespace ringscope::viz

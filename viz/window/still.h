// Draws single pictures, of losses and of sweeps, with ImGui but without a window.
#pragma once

#include <string>

#include "core/sim/sweep.h"
#include "core/train/loss_csv.h"
#include "viz/model/timeline/palette.h"

namespace ringscope::viz {

// Return the picture of a training run's losses, of 1600 x 900 pixels. With `svg` set that to the
// picture instead, and return an empty image.
Image loss_image(const LossCurve& curve, Theme theme = Theme::dark, std::string* svg = nullptr);

// Return the picture of a sweep (`ringscope simulate --sweep ... --picture FILE.png`), of 1600 x 1000
// pixels, likewise. `machine` names the simulated machine.
Image sweep_image(const SweepTable& table, const std::string& machine, Theme theme = Theme::dark,
                  std::string* svg = nullptr);

}  // namespace ringscope::viz

// Draws single pictures, of losses and of sweeps, with ImGui but without a window.
#pragma once

#include <string>

#include "core/sim/sweep.h"
#include "core/train/loss_csv.h"
#include "viz/model/timeline/palette.h"

namespace ringscope::viz {

// Return the picture of a training run's losses, of 1600 x 900 pixels.
Image loss_image(const LossCurve& curve);

// Return the picture of a sweep (`ringscope simulate --sweep ... --picture FILE.png`), of 1600 x 1000
// pixels. `machine` names the simulated machine.
Image sweep_image(const SweepTable& table, const std::string& machine);

}  // namespace ringscope::viz

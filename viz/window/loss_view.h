// The picture of a training run's losses into a file.
#pragma once

#include <string>

#include "core/sim/sweep.h"
#include "core/train/loss_csv.h"
#include "viz/model/timeline/palette.h"

namespace ringscope::viz {

// 1600 x 900 pixels.
Image loss_image(const LossCurve& curve);

// The same as PNG, whole or not at all. Throws InputError when the place can't be written to,
// RunError when the disk is full.
void write_loss_picture(const LossCurve& curve, const std::string& path);

// ---
// A sweep's picture into a file: `ringscope simulate --sweep ... --picture FILE.png`.

// 1600 x 1000 pixels. `machine`: what it was simulated on, in words.
Image sweep_image(const SweepTable& table, const std::string& machine);

// The same as PNG, whole or not at all. Throws InputError when the place can't be written to,
// RunError when the disk is full.
void write_sweep_picture(const SweepTable& table, const std::string& machine,
                         const std::string& path);

}  // namespace ringscope::viz

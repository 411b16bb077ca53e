// The picture of a training run's losses into a file.
#pragma once

#include <string>

#include "core/train/loss_curve.h"
#include "viz/model/image.h"

namespace ringscope::viz {

// 1600 x 900 pixels.
Image loss_image(const LossCurve& curve);

// The same as PNG, whole or not at all. Throws InputError when the place can't be written to,
// RunError when the disk is full.
void write_loss_picture(const LossCurve& curve, const std::string& path);

}  // namespace ringscope::viz

// The pictures that commands write, in builds with a viewer, which draws them.
#pragma once

#include <string>

#include "core/sim/sweep.h"
#include "core/train/loss_csv.h"

namespace ringscope {

// Throw InputError that names `flag` in a build without a viewer. `instead` is a flag that gives
// the same numbers without one.
void require_pictures(const std::string& flag, const std::string& instead = "--csv FILE");

// `machine` names the simulated hardware. Throw as viz::write_sweep_picture() does.
void write_sweep_picture(const SweepTable& table, const std::string& machine,
                         const std::string& path);

// Throw as viz::write_loss_picture() does.
void write_loss_picture(const LossCurve& curve, const std::string& path);

}  // namespace ringscope

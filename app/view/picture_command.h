// Pictures that commands write, where this build can draw.
#pragma once

#include <string>

#include "core/sim/sweep.h"
#include "core/train/loss_csv.h"

namespace ringscope {

// Throws InputError that names `flag` where this build has no viewer, which draws pictures; `instead`
// is what says the same without one.
void require_pictures(const std::string& flag, const std::string& instead = "--csv FILE");

// `machine`: what it was simulated on, in words. Throws as viz::write_sweep_picture().
void write_sweep_picture(const SweepTable& table, const std::string& machine,
                         const std::string& path);

// Throws as viz::write_loss_picture().
void write_loss_picture(const LossCurve& curve, const std::string& path);

}  // namespace ringscope

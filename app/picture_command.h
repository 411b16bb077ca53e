// The picture of a sweep, where this build can draw.
#pragma once

#include <string>

#include "core/sim/sweep.h"

namespace ringscope {

// Throws InputError that names `flag` where this build has no viewer, which draws pictures.
void require_pictures(const std::string& flag);

// `machine`: what it was simulated on, in words. Throws as viz::write_sweep_picture().
void write_sweep_picture(const SweepTable& table, const std::string& machine,
                         const std::string& path);

}  // namespace ringscope

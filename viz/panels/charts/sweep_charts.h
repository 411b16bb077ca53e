// Turns a table of simulations into a picture. The swept settings decide which charts it has:
//
//   time against seqlen, or else the first other setting with numbers, with a curve for each
//   combination of the settings with names and of as many other numbers as stay readable
//   efficiency against world_size, or else the same setting
//   exposed communication over the first two settings with numbers, if there are two
//   bars of time if only names are swept
#pragma once

#include <string>

#include "core/sim/sweep.h"
#include "viz/panels/charts/sweep_picture.h"

namespace ringscope::viz {

// Make the picture of a table with at least one point. `machine` names the simulated machine.
SweepPicture picture_of(const SweepTable& table, const std::string& machine);

}  // namespace ringscope::viz

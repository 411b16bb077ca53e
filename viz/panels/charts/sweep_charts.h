// From a table of simulations to its picture: which curves the swept settings allow.
//
//   time against seqlen, or the first other setting with numbers; a curve for each combination of
//   the settings with names, and of as many of the other numbers as stay readable
//   efficiency against world_size, or the same setting
//   exposed communication over the two settings with numbers that come first, if there are two
//   bars of time where only names are swept
#pragma once

#include <string>

#include "core/sim/sweep.h"
#include "viz/panels/charts/sweep_picture.h"

namespace ringscope::viz {

// `machine`: what it was simulated on, in words. Of a table with a point at least.
SweepPicture picture_of(const SweepTable& table, const std::string& machine);

}  // namespace ringscope::viz

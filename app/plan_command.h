// `ringscope plan`: what a run will cost on a machine, by formula.
#pragma once

#include "app/plan_options.h"

namespace ringscope {

// Returns the exit status: 0, whether the plan can be carried out or not, since that is the answer.
int plan_command(const PlanOptions& options);

}  // namespace ringscope

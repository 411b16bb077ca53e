// `ringscope simulate`: a run on a machine that is not here.
#pragma once

#include "app/simulate_options.h"

namespace ringscope {

// Returns the exit status, 0. Throws InputError, RunError, std::bad_alloc.
int simulate_command(const SimulateOptions& options);

}  // namespace ringscope

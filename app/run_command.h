// `ringscope run`: one attention problem, on a ring.
#pragma once

#include "app/options.h"

namespace ringscope {

// Prints the report on stdout and returns the exit status: 0, or 1 when --verify found the numbers
// wrong. Throws InputError, RunError, std::bad_alloc.
int run_command(const RunOptions& options);

}  // namespace ringscope

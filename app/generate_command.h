// `ringscope generate`: text from a checkpoint.
#pragma once

#include "app/generate_options.h"

namespace ringscope {

// With a thread a rank. Returns the exit status; throws InputError, RunError.
int generate_command(const GenerateRequest& request);

}  // namespace ringscope

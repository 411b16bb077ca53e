// `ringscope demo`: the main job on a real text. Causal ring attention on four ranks in all four
// partitions, each verified against one oracle and recorded, and one table of what differs between
// them; then the traces as a picture, and the viewer where somebody can see it.
#pragma once

#include "app/options.h"

namespace ringscope {

// Returns the exit status: 0, or 1 when a verification failed. Throws InputError, RunError,
// std::bad_alloc.
int demo_command(const DemoOptions& options);

}  // namespace ringscope

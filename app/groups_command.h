// `ringscope groups`: who works together when heads, rows, layers and batches are dealt out at the
// same time, where these groups lie, and what they send.
#pragma once

#include "app/groups_options.h"

namespace ringscope {

// Returns the exit status, 0.
int groups_command(const GroupsOptions& options);

}  // namespace ringscope

// A two-level ring (two_level.h) step by step: both passes of account.job(), into account.result.
#pragma once

#include "core/sim/account.h"
#include "core/sim/two_level_hops.h"

namespace ringscope {

void simulate_two_level_in_step(Account& account, TwoLevelHops& hops, bool with_path);

// As many as account.job().kv_buffers.
void simulate_two_level_with_buffers(Account& account, TwoLevelHops& hops, bool with_path);

}  // namespace ringscope

// The two-level ring (two_level.h), step by step. Both passes go into account.result.
#pragma once

#include "core/sim/account.h"
#include "core/sim/two_level_hops.h"

namespace ringscope {

void simulate_two_level_in_step(Account& account, TwoLevelHops& hops, bool with_path);

// Simulate ranks with account.job().kv_buffers KV buffers on each level.
void simulate_two_level_with_buffers(Account& account, TwoLevelHops& hops, bool with_path);

}  // namespace ringscope

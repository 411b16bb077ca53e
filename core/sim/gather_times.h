// The all-gather of core/ring/allgather.cpp, hop by hop: both passes of account.job(), written to
// account.result. Every rank gathers all blocks and then computes alone. Each hop comes after both
// halves of the one before. Backward, gradients follow, each hop after the last one's are added.
#pragma once

#include "core/sim/account.h"

namespace ringscope {

// Simulate an all-gather. With `in_step` all ranks begin each hop together and also end computing
// together; otherwise each goes on when it can. `with_path` also fills result.path.
void simulate_allgather(Account& account, bool in_step, bool with_path);

}  // namespace ringscope

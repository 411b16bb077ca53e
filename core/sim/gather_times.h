// All-gather, hop by hop, as core/ring/allgather.cpp: both passes of account.job(), into
// account.result. Every rank gathers all blocks, each hop after both halves of the one before, and
// then computes alone; backward, hops of gradients follow, each after what has come is added up.
#pragma once

#include "core/sim/account.h"

namespace ringscope {

// `in_step`: all ranks begin each hop together, and end a pass, or gathering, computing and
// scattering, together. Otherwise each goes on when it can. `with_path`: result.path too.
void simulate_allgather(Account& account, bool in_step, bool with_path);

}  // namespace ringscope

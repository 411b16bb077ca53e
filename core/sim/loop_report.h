// What a run of the loops' graph comes to, when it is known when every task ran: sums for each rank,
// events as a recording has them, and the critical path.
#pragma once

#include "core/sim/account.h"
#include "core/sim/loop_graph.h"

namespace ringscope {

// Into account.result. `times`: of graph_of_loops(account.job()). Ranks' events are told rank by
// rank, slices of a lane in order. `with_path`: the critical path too.
void keep_books(Account& account, const LoopGraph& graph, const LoopTimes& times, bool with_path);

}  // namespace ringscope

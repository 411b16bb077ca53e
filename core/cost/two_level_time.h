// The closed form of a two-level ring (core/sim/two_level.h) whose ranks keep step: M nodes of G
// equal ranks, links of one kind inside nodes and of another between them.
//
//   forward   sum over o of max(sum over i of max(W(o, i), H here), H between)
//             without H here at the last i and H between at the last o
//   backward  the same with G + H in place of H, without G at the first i and the first o; then the
//             last sum's hop to its owner's node and the one to its owner: G between, G here
//
// W(o, i): slowest rank's pairs; H, G: hops of a KV block and of its gradient (layer_time.h, which
// this is for M = 1 and for G = 1). With links alike it is never better than the flat ring; it is
// where a hop between nodes is longer than a step, but not than G of them.
#pragma once

#include "core/cost/layer_time.h"

namespace ringscope {

// `balance`: balance_of(job). `rates`: of a rank, and of the links inside nodes; `between`: of
// those between nodes, as a message gets them when all ranks send one.
LayerTime two_level_time(const Job& job, const Balance& balance, const Rates& rates,
                         const Link& between);

}  // namespace ringscope

// How long one layer's attention takes, and what of that is computing, waiting for a slower rank,
// and exposed communication. The three add up to the whole, but for rounding.
//
//   ring       every step lasts as long as the slowest rank's computation or the hop beside it,
//              whichever is longer (S0, "Communication Complexity"; S4, part 3, "Wall-Clock Time"):
//                forward   sum over t of max(W(t), H), without H at the last step
//                backward  sum over t of max(W(t), G + H), without G at step 0 and H at the last,
//                          plus the last hop of a gradient, G, beside which nothing is left to do
//              W(t): slowest rank's pairs; H, G: hops of a KV block and of its gradient, one after
//              the other on a link. Ranks keep step: that double buffering lets a rank run ahead by
//              a step is not used, so uneven steps that make up for each other come out slower
//              than they are.
//   allgather  all N-1 hops first, none hidden; then the slowest rank's whole work (S1, part one,
//              3.2); backward also N-1 hops of gradients.
//   two_level  two_level_time.h, with links between nodes as inside them.
//   ulysses    all-to-alls, none hidden, and even work.
//
// Left out, because it is none of the three: adding up gradients and rescaling between steps.
#pragma once

#include "core/cost/balance.h"
#include "core/cost/rates.h"

namespace ringscope {

// Seconds.
struct PassTime {
  double compute = 0;    // of the mean rank
  double imbalance = 0;  // waiting for the slowest one
  double exposed = 0;    // communication beside which nothing is computed
  double wall = 0;       // all of it: step after step, as the simulation adds it up (core/sim)
  double total() const { return wall; }
};

struct LayerTime {
  PassTime forward, backward;  // backward: zeros without it
  double total() const { return forward.total() + backward.total(); }
  double compute() const { return forward.compute + backward.compute; }
  double imbalance() const { return forward.imbalance + backward.imbalance; }
  double exposed() const { return forward.exposed + backward.exposed; }
};

// `balance`: balance_of(job).
LayerTime layer_time(const Job& job, const Balance& balance, const Rates& rates);

}  // namespace ringscope

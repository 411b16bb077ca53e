// The times of a scheme's loop (core/ring) on a machine. What is simulated is the loop that runs:
// rank 0's loop is started over a communicator and a backend that compute, for all ranks at once,
// when each operation begins and ends. That the others ask for the same operations, with owners and
// peers turned by their place in the ring, is what makes it a ring; the graph of all ranks' loops
// (loop_graph.h) gives the same times. Memory grows with the number of ranks, not of steps.
//
//   computations   A rank's run one after the other, each after what it waits for.
//   hops           A hop begins when its sender and its receiver have all that they wait for, and
//                  the sender's hop before it, of the same way, has left. A rank that waits for its
//                  hop waits for both halves (seams.h): what it sends has left, what it receives is
//                  there.
//   in step        Who waits for a hop waits for all ranks to come there, and nobody's hop begins or
//                  ends before the others'. This is what the closed form assumes (core/cost/time.h).
//                  Blocks then have two buffers, whatever the job says.
//
// Exposed time counts the hops that were asked for when a rank began to wait. In a two-level ring a
// hop between nodes may begin before the turn in which it is asked for; waits before that turn don't
// count it.
//
// With more than two buffers, backward, gradients may wait for blocks that nobody needs yet, which
// were asked for before them.
#pragma once

#include "core/sim/account.h"

namespace ringscope {

// Run both passes of account.job() and write them to account.result. `with_path` adds the critical
// path. The scheme has a loop: it is not ulysses.
void simulate_loop(Account& account, bool in_step, bool with_path);

}  // namespace ringscope

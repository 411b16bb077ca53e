// What a rank sends, in bytes and messages, forward and backward.
//
//   ring       forward, N-1 hops of a KV block: 2 c G d values (S0, "Communication Complexity").
//              S1, part one, 4.4 counts N hops (claim C27); S2's "independent of N in total" is
//              true a rank, not over all (C29). Backward, N-1 hops of the KV block again and N of
//              its f32 gradient, which takes one more to get home (S1, part two, 8.2 sends it the
//              wrong way: C16).
//   allgather  the same volume forward; backward gathers again and scatters N-1 gradients.
//   two_level  forward, as the ring, by M (G-1) hops inside nodes and M-1 between them; backward
//              these again, and of gradients M (G-1) + 1 inside nodes and M between them: one more
//              than the ring's N where M and G are both above 1 (core/sim/two_level.h).
//   ulysses    forward, (N-1)/N of the rank's Q, K and V, then of its share of the output; backward
//              of dO, then of its shares of dQ, dK and dV, which it rounds to the storage type.
//              (Q, K, V and O are kept as they came, so nothing is sent twice.)
//
// With G kv heads for H query heads a ring sends G/H of the bytes (S1, part two, 12.3: C48).
#pragma once

#include "core/cost/job.h"

namespace ringscope {

struct Traffic {
  double forward_bytes = 0;   // sent by one rank
  double backward_bytes = 0;  // 0 without backward
  // Ring and all-gather: steps at whose end the rank's blocks moved on. Ulysses: all-to-alls, of
  // N-1 messages each.
  double hops = 0;

  double bytes() const { return forward_bytes + backward_bytes; }
};

// What `rank` sends, in one layer.
Traffic traffic_of(const Job& job, int rank);

// What `rank` sends in the two all-to-alls of a pass of Ulysses, to the ranks that have the heads
// and back to those that have the rows.
struct AllToAlls {
  double there_bytes = 0;
  double back_bytes = 0;
};
AllToAlls all_to_alls_of(const Job& job, Pass pass, int rank);

// The largest message of a hop: a KV block and, backward, its gradient. 0 with one rank.
double kv_hop_bytes(const Job& job);
double gradient_hop_bytes(const Job& job);

}  // namespace ringscope

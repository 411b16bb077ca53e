// Count what a rank sends, in bytes and messages; time.h says how long that takes.
//
//   ring       Forward, N-1 hops of a KV block: 2 c G d values (S0, "Communication Complexity").
//              S1, part one, 4.4 counts N hops (claim C27). S2's "independent of N in total" is
//              true per rank, not over all (C29). Backward, N-1 hops of the KV block again and N of
//              its f32 gradient, which needs one more to get home (S1, part two, 8.2 sends it the
//              wrong way: C16).
//   allgather  The same volume forward. Backward gathers again and scatters N-1 gradients.
//   two_level  Forward, the ring's N-1 hops: M (G-1) inside nodes, M-1 between them. Backward,
//              these again, and M (G-1) + 1 hops of gradients inside nodes and M between them: one
//              more than the ring's N when M and G are both above 1 (core/sim/two_level.h).
//   ulysses    Forward, (N-1)/N of the rank's Q, K and V, then of its share of the output.
//              Backward, of dO, then of its shares of dQ, dK and dV, rounded to the storage type.
//              (Q, K, V and O stay in memory, so nothing is sent twice.)
//
// With G kv heads for H query heads a ring sends G/H of the bytes (S1, part two, 12.3: C48).
#pragma once

#include "core/ring/problem.h"

namespace ringscope {

struct Traffic {
  double forward_bytes = 0;   // sent by one rank
  double backward_bytes = 0;  // 0 without backward
  // Ring and all-gather: steps at whose end blocks moved on. Ulysses: all-to-alls of N-1 messages.
  double hops = 0;

  double bytes() const { return forward_bytes + backward_bytes; }
};

// Return what `rank` sends in one layer.
Traffic traffic_of(const Problem& job, int rank);

// Bytes that a rank sends in the two all-to-alls of a pass of Ulysses: there, to the ranks that
// compute the heads, and back, to those that hold the rows.
struct AllToAlls {
  double there_bytes = 0;
  double back_bytes = 0;
};
AllToAlls all_to_alls_of(const Problem& job, Pass pass, int rank);

// Return the largest message of a hop: a KV block, or its gradient (backward). 0 with one rank.
double kv_hop_bytes(const Problem& job);
double gradient_hop_bytes(const Problem& job);

}  // namespace ringscope

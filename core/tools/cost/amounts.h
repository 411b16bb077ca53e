// Counts what one layer's attention needs on any machine: floating-point operations, tiles, bytes
// sent and bytes held. time.h turns them into seconds.
#pragma once

#include "core/problem/region.h"
#include "core/ring/rank_memory.h"
#include "core/trace/event.h"

namespace ringscope {

// ---
// Count the floating-point operations of attention from the pairs that the mask allows.

// Return the FLOPs of `pairs` pairs, over all batch entries and query heads: with one width 4
// head_dim forward and 10 backward (S1, part two, 8.1), see flops_of_a_pair(). Exponentials are left
// out, as in S0, "Arithmetic Complexity". S1, part two, 7.1 and 12.4 count one forward product (claims
// C31, C32), and S4, part 4, calls multiply-adds FLOPs (C41), so both have half.
inline double flops_of_pairs(const AttentionShape& shape, double pairs, Pass pass) {
  return static_cast<double>(flops_of_a_pair(shape, pass)) * row_values(shape, 1.0) * pairs;
}

// Return the number of pairs that the mask allows in the whole sequence, in O(documents). Throw
// InputError when document lengths do not sum to seqlen.
double total_pairs(const Problem& job);

// ---
// TileAmounts counts what the CPU's tile loops (core/attention/tiles.h) process for one head of a
// block. Their time is linear in these amounts; see measure.h.

struct TileAmounts {
  double pairs = 0;         // computed: rows of a tile x its columns in whole vectors
  double rows = 0;          // of tiles that aren't empty
  double partial_rows = 0;  // rows of partial tiles
  double keys = 0;          // of tiles of keys that at least one row attends

  bool operator==(const TileAmounts&) const = default;
};

// Count the tiles of `region`, in O(tiles that aren't empty).
TileAmounts tile_amounts(const Region& region);

// ---
// Count what a rank sends, in bytes and messages, as its program asks for it (core/ring/program.h); time.h
// says how long that takes.
//
// S1, part one, 4.4 counts N hops forward (claim C27), where a ring makes N-1. S2's "independent of N in
// total" is true per rank, not over all (C29). Backward, gradients make N hops, the last of which gets
// them home (S1, part two, 8.2 sends them the wrong way: C16). With G kv heads for H query heads a ring
// sends G/H of the bytes (S1, part two, 12.3: C48).
//
// Of Ulysses where heads divide, other than its program: forward, (N-1)/N of the rank's Q, K and V, then of
// its share of the output. Backward, of dO, then of its shares of dQ, dK and dV, rounded to the storage
// type. (Q, K, V and O stay in memory, so nothing is sent twice.) Not counted is that the loop
// (core/ring/hybrid.cpp) returns results in f32, and lse with the output.

struct Traffic {
  double forward_bytes = 0;   // sent by one rank
  double backward_bytes = 0;  // 0 without backward
  // Rings and all-gather: steps at whose end blocks moved on. Ulysses: all-to-alls of N-1 messages.
  // Others: messages.
  double hops = 0;

  double bytes() const { return forward_bytes + backward_bytes; }
};

// Return what `rank` sends in one layer.
Traffic traffic_of(const Problem& job, int rank);
// Return the rank that sends most: 0, unless blocks go only as far as they are needed.
int busiest_sender(const Problem& job);

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

// ---
// What a rank holds, by the bill of core/ring/rank_memory.h.

// Return the peak of the rank with the most rows, which is what a device must have.
double peak_bytes(const Problem& job);

}  // namespace ringscope

// Count the floating-point operations of attention from the pairs that the mask allows.
#pragma once

#include "core/problem/region.h"
#include "core/ring/problem.h"
#include "core/trace/event.h"

namespace ringscope {

// Return the FLOPs of `pairs` pairs, over all batch entries and query heads. Forward, a pair is in
// two products (Q K^T and P V) of head_dim multiply-adds, two FLOPs each: 4 head_dim. Backward, it
// is in five (S again, dV, dP, dQ, dK: S1, part two, 8.1): 10 head_dim. Exponentials are left out,
// as in S0, "Arithmetic Complexity". S1, part two, 7.1 and 12.4 count one forward product (claims
// C31, C32), and S4, part 4, calls multiply-adds FLOPs (C41), so both have half.
inline double flops_of_pairs(const AttentionShape& shape, double pairs, Pass pass) {
  return (pass == Pass::forward ? 4 : 10) * query_values(shape, 1) * pairs;
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

}  // namespace ringscope

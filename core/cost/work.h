// Floating-point operations of attention, from pairs of a query and a key that the mask allows.
#pragma once

#include "core/cost/job.h"
#include "core/problem/region.h"

namespace ringscope {

// FLOPs of `pairs` pairs, over all batch entries and query heads. Forward, a pair takes part in two
// products (Q K^T and P V) of head_dim multiply-adds, two FLOPs each: 4 head_dim. Backward in five
// (S again, dV, dP, dQ, dK: S1, part two, 8.1): 10 head_dim. The exponentials are left out, as in
// S0, "Arithmetic Complexity". S1, part two, 7.1 and 12.4 count only one of the forward's products
// (claims C31, C32), and S4, part 4, counts multiply-adds and calls them FLOPs (C41): both are half
// of this.
inline double flops_of_pairs(const AttentionShape& shape, double pairs, Pass pass) {
  return (pass == Pass::forward ? 4 : 10) * query_values(shape, 1) * pairs;
}

// Pairs that the mask allows in the whole sequence. Throws InputError when document lengths don't
// sum up to seqlen. O(documents).
double total_pairs(const Job& job);

// ---
// What the CPU's tile loops (core/attention/tiles.h) go through for one head of a block. Their time
// goes by these amounts; see measure.h.

struct TileAmounts {
  double pairs = 0;         // computed: tiles' rows x their columns in whole vectors
  double rows = 0;          // of tiles that aren't empty
  double partial_rows = 0;  // those of them in tiles that aren't full either
  double keys = 0;          // of tiles of keys that aren't empty for all rows

  bool operator==(const TileAmounts&) const = default;
};

// O(tiles that aren't empty).
TileAmounts tile_amounts(const Region& region);

}  // namespace ringscope

// Which rows of a KV block have to travel, and how far: those that a query of another rank may attend.
#pragma once

#include <vector>

#include "core/problem/region.h"

namespace ringscope {

// Return the rows of run `k` of region.keys that any query of the region may attend, as ascending
// intervals that do not touch, in O(runs x documents x slices). Of rows with stride 1, `k` is 0 and
// the intervals are of the local rows of all runs.
std::vector<Interval> needed_rows(const Region& region, int k = 0);

// Some rows of a rank's block that the same ranks need: a KV block of its own, for all that computes or
// sends.
struct BlockPart {
  LocalRows rows;               // their positions
  Index first = 0, step = 1;    // they are the block's local rows first, first + step, …
  Index at = 0;                 // rows of the parts before it in memory
  std::vector<bool> needed_by;  // by distance: whether rank + distance needs them; [0]: always
  int last = 0;                 // the distance of the last rank around the ring that needs them

  Index size() const { return rows.size(); }
};

// In what order a block's parts lie. `farthest_first` is for rings: what goes on is always the first
// parts. `by_position` is for casts: a part for each set of ranks. Beyond 8 pieces of a block, or 256
// of a cast's, those are joined whose rows then travel the least in vain.
enum class PartOrder { farthest_first, by_position };

// Return the parts of a rank's block: at least one, and all of its rows.
std::vector<BlockPart> parts_of_block(const Mask& mask, const Partitions& deal, int rank,
                                      PartOrder order);

// Of more ranks, what each pair of them needs of each other is not worked out.
inline constexpr int kMostPartedRanks = 1024;

// Return whether a ring is worth cutting blocks into parts for: whether more than a quarter of all rows
// need not make the last hop. Zigzag ranks under a causal mask stay below it. Of their rows only
// the sequence's last chunk may stay, 1 / (2 N), and no hop would become shorter.
bool saves_hops(const Mask& mask, const Partitions& deal);

}  // namespace ringscope

// What fits, and how far it could be stretched: the questions asked backwards, from the memory that
// there is to the sizes that it allows (claim C52: N ranks hold about N times the context of one).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/cost/job.h"
#include "core/cost/time.h"

namespace ringscope {

// Why `job` can't be done in `memory_bytes` a rank; none when it can. Ulysses deals out whole
// heads, so world_size must divide both heads and heads-kv; two-level rings have equal nodes, so
// their number must divide world_size.
std::optional<std::string> obstacle(const Job& job, double memory_bytes);

// The largest seqlen, up to kMaxSeqlen, at which a rank's memory suffices, all else being equal; 0
// when not even one position fits. (Memory does not depend on the mask.)
Index largest_seqlen(const Job& job, double memory_bytes);

// The smallest world_size at which memory suffices, all else being equal (and heads divide, for
// Ulysses, or nodes remain, for two-level rings); none when no number of ranks will do.
std::optional<int> smallest_world_size(const Job& job, double memory_bytes);

// ---
// Every way to deal a job out and to move its blocks, side by side, and the best of them.

struct Choice {
  Job job;
  Balance balance;
  LayerTime time;
  double peak_bytes = 0;                // of the rank that holds most
  std::optional<std::string> obstacle;  // why it can't be done
};

// One choice, judged.
Choice judge(const Job& job, const Rates& rates, double memory_bytes);

// `job` in all partitions, on a ring and gathered, and by heads. With Ulysses every rank holds the
// whole sequence while it computes, so there partition makes no difference and stands as
// contiguous.
std::vector<Choice> all_choices(const Job& job, const Rates& rates, double memory_bytes);

// Index of the fastest of those that can be done; among those within 1 % of it, the first one in
// the order of all_choices (contiguous rows before others, and fewer partial tiles before more:
// C25). None when none can be done.
std::optional<std::size_t> best_choice(const std::vector<Choice>& choices);

}  // namespace ringscope

// What fits, and how far it could be stretched: the questions asked backwards, from the memory that
// there is to the sizes that it allows (claim C52: N ranks hold about N times the context of one).
#pragma once

#include <optional>
#include <string>

#include "core/cost/job.h"

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

}  // namespace ringscope

// A partition made for a job's mask and the speeds of its ranks: windows, prefixes, documents and
// unequal ranks, for which no fixed one is made. Chunks of whole tiles are dealt out, the one with
// most work first, each to the rank where it makes the work of all (rank, step) of a ring most even.
// Then the fixed partitions are judged by the same measure, the slowest rank's computed pairs summed
// over steps, and the best of all is taken: a searched partition is never worse than a fixed one.
#pragma once

#include "core/tools/sim/work.h"

namespace ringscope {

inline constexpr std::string_view kSearched = "searched";
inline constexpr int kMostSearchedRanks = 256;

// Deal out a partition of any kind. A searched one is for the job's speeds and for kernels that
// compute `tile`s. Throw InputError as Problem::deal_out(), and for a search for too many ranks.
void deal_out(Problem& job, Granularity tile);

}  // namespace ringscope

// A recording as a ring would make it, with times that are easy to reason about: what the trace
// tests and the fuzzers' corpus start from.
#pragma once

#include "core/trace/event.h"

namespace ringscope {

// Forward, and the backward after it when asked for, on `world_size` ranks. Rank r's step t takes
// 1000 ns of compute and pairs 100 (r + 1) + t; transfers overlap it, waits follow it. With two
// samples a rank.
Recording sample_recording(int world_size, bool backward);

// A tile of its rank 0 with odd numbers: two queries that have seen nothing, three keys, a row without any.
RecordedTile sample_tile();

}  // namespace ringscope

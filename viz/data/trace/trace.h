// What the viewer asks of a trace (core/trace/trace.h) besides its slices: its steps, its title, and
// the rest of a training step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/trace/trace.h"

namespace ringscope::viz {

// Return how much of [begin_ns, end_ns) lies within [from_ns, to_ns).
constexpr std::int64_t ns_within(std::int64_t begin_ns, std::int64_t end_ns, std::int64_t from_ns,
                                 std::int64_t to_ns) {
  return std::max<std::int64_t>(0, std::min(end_ns, to_ns) - std::max(begin_ns, from_ns));
}

// Call each(rank, slice) for all slices of a lane in a recording of ours, rank by rank.
template <class Each>
void for_each_slice(const Trace& trace, Lane lane, Each&& each) {
  for (int rank = 0; rank < trace.rank_count(); ++rank)
    for (const TraceEvent& slice : trace.slices_of(rank, lane)) each(rank, slice);
}

// Return a title for people: "contiguous · causal · 4 ranks", or the file's name.
std::string title_of(const Trace& trace);

// Name what a message carries: "KV 2", "dKV 2", "heads".
std::string name_of_message(const Trace& trace, const TraceEvent& message);

// Return what is unusual about the way blocks moved (" · allgather", " · 3 buffers"), or "".
std::string way_of(const RunInfo& run);

// Return whether nothing was recorded of a rank of a whole run of ours of many ranks, of which a
// simulation writes down a sample.
bool is_unrecorded(const Trace& trace, int rank);

// Return whether ranks shared cores, so that times show a scheduler too.
inline bool shares_cores(const RunInfo& run) {
  return run.machine && run.machine->cores > 0 && run.machine->cores < run.world_size;
}

// ---
// The recording of a training step: the ring of one layer is part of more work, which has a lane of its
// own. A rank is at the ring in two stretches of time, one per pass; outside of them it computes the rest
// of the model.

// [begin_ns, end_ns) is the time that a Stretch covers.
struct Stretch {
  std::int64_t begin_ns = 0, end_ns = 0;
};

// Return when `rank` was at the ring, by time: from a pass's first computation or wait to its last.
std::vector<Stretch> ring_stretches(const Trace& trace, int rank);

// Return the rank's lane of the rest of the model, which the trace must have.
inline const TraceLane& model_lane(const Trace& trace, int rank) {
  return trace.lanes[trace.ranks[rank].first_lane + kModelTid];
}
// Return the outermost slices of that lane; empty if there is none.
std::span<const TraceEvent> model_slices(const Trace& trace, int rank);

}  // namespace ringscope::viz

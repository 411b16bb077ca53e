// Defines a recording as the viewer holds it: its events in rows, rows in lanes, lanes in ranks.
// trace_loader.h makes it from our own recordings and from any other Chrome trace. All times are in
// nanoseconds after the trace's base time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace/event.h"

namespace ringscope::viz {

// A Slice is one interval of a row: an event as it was recorded. In a profiler's trace its peers are
// RankTrack::pid. Kind says what it is about, and RingLane is a lane of our own recordings, named by what
// happens on it; Lane is of any trace.
using Slice = TraceEvent;
using RingLane = ringscope::Lane;
using Kind = ringscope::Lane;
inline constexpr int kKindCount = kLaneKinds;

// Return a slice that is outside of any ring, and no message.
inline Slice plain_slice() {
  Slice slice{.lane = Kind::other, .step = -1, .kv_owner = -1};
  slice.src = slice.dst = -1;
  return slice;
}

// Return the slice's part of a kernel's part: those of the model come first.
inline constexpr int kModelParts = static_cast<int>(std::size(kAllModelParts));
constexpr std::int8_t part_of(KernelPart part) {
  return static_cast<std::int8_t>(kModelParts + static_cast<int>(part));
}
// Return the kernel's part that a slice is, if it is one.
constexpr std::optional<KernelPart> kernel_part(const Slice& slice) {
  if (slice.part < kModelParts) return std::nullopt;
  return static_cast<KernelPart>(slice.part - kModelParts);
}

// The slices of a Row do not overlap and are sorted by begin.
struct Row {
  std::uint32_t lane = 0;   // index in Trace::lanes
  std::uint32_t depth = 0;  // 0 for the lane's outermost slices
  std::vector<Slice> slices;
};

// A Lane is one thread, stream or kind of work of a rank. Its rows are neighbours in Trace::rows:
// one per level of nesting, and more where slices overlap without nesting.
struct Lane {
  std::uint32_t rank = 0;  // index in Trace::ranks
  std::int64_t tid = 0;
  std::string name;
  std::uint32_t first_row = 0;
  std::uint32_t rows = 0;
};

// Return how much of [begin_ns, end_ns) lies within [from_ns, to_ns).
constexpr std::int64_t ns_within(std::int64_t begin_ns, std::int64_t end_ns, std::int64_t from_ns,
                                 std::int64_t to_ns) {
  return std::max<std::int64_t>(0, std::min(end_ns, to_ns) - std::max(begin_ns, from_ns));
}

// A RankTrack is one rank of a ring or of a profiler's job, or one process of any other trace.
struct RankTrack {
  std::int64_t pid = 0;
  std::string name;
  std::uint32_t first_lane = 0;
  std::uint32_t lanes = 0;
  bool operator==(const RankTrack&) const = default;
};

struct SliceId {
  std::uint32_t row = 0;
  std::uint32_t index = 0;
  bool operator==(const SliceId&) const = default;
};

// A Flow is a message from the slice that sends to the slice that receives.
struct Flow {
  SliceId from, to;
};

struct Trace {
  std::string path;            // as given; the first file's where several make one trace
  std::optional<RunInfo> run;  // set only for a recording of ours, where rank r is ranks[r] and has
                               // the lanes compute, send, recv and wait in this order, followed by
                               // the model's lane in a training step and the lanes of kernels
  std::vector<RankTrack> ranks;
  std::vector<Lane> lanes;
  std::vector<Row> rows;
  std::vector<Flow> flows;
  std::vector<SoftmaxSample> samples;
  std::vector<StoryStep> story;                 // told beside a recording of ours; mostly empty
  std::vector<std::vector<KernelSpan>> kernel;  // [rank]: what kernels stamped; mostly empty
  std::vector<std::string> names;
  std::vector<std::string> notices;  // what the user should know: dropped events, dangling flows
  std::int64_t begin_ns = 0;         // of the earliest slice
  std::int64_t end_ns = 0;           // of the slice that ends last
  std::size_t slice_count = 0;
  bool is_part = false;  // a recording of ours, of whose slices some are cut off

  bool is_ring() const { return run.has_value(); }
  // Return whether the rest of the training step that the ring is part of was recorded too.
  bool has_model() const {
    return is_ring() && !ranks.empty() && ranks[0].lanes > std::size(kAllLanes) &&
           lanes[ranks[0].first_lane + std::size(kAllLanes)].tid == kModelTid;
  }
  // Return whether kernels stamped what they did.
  bool has_kernel() const { return is_ring() && !lanes.empty() && lanes.back().tid >= kKernelTid; }
  std::int64_t wall_ns() const { return end_ns - begin_ns; }
  const Slice& slice(SliceId id) const { return rows[id.row].slices[id.index]; }
  int rank_count() const { return static_cast<int>(ranks.size()); }
  int rank_of_row(std::uint32_t row) const { return static_cast<int>(lanes[rows[row].lane].rank); }
  std::string_view name(const Slice& slice) const { return names[slice.name]; }
  // Return the row of a rank's lane in a recording of ours.
  std::uint32_t row_of(int rank, RingLane lane) const {
    const RankTrack& track = ranks[rank];
    return lanes[track.first_lane + static_cast<std::uint32_t>(lane)].first_row;
  }
  const std::vector<Slice>& slices_of(int rank, RingLane lane) const {
    return rows[row_of(rank, lane)].slices;
  }
  // Return a title for people: "contiguous · causal · 4 ranks", or the file's name.
  std::string title() const;
};

// Return what a kernel stamped about a slice that is a part of it; null for any other.
const KernelSpan* kernel_span(const Trace& trace, SliceId id);

// Call each(rank, slice) for all slices of a lane in a recording of ours, rank by rank.
template <class Each>
void for_each_slice(const Trace& trace, RingLane lane, Each&& each) {
  for (int rank = 0; rank < trace.rank_count(); ++rank)
    for (const Slice& slice : trace.slices_of(rank, lane)) each(rank, slice);
}

// Return total + more, for both >= 0, or the largest number if the sum does not fit.
inline std::int64_t saturating_sum(std::int64_t total, std::int64_t more) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(total, more, &sum) ? INT64_MAX : sum;
}

// Return what is unusual about the way blocks moved (" · allgather", " · 3 buffers"), or "".
std::string way_of(const RunInfo& run);

// Return whether nothing was recorded of a rank of a whole run of ours of many ranks, of which a
// simulation writes down a sample.
bool is_unrecorded(const Trace& trace, int rank);

// Return the number of ring steps on the step axis: the forward steps, followed by the backward
// ones. It is 0 for a trace that is not ours. Both functions look at every slice.
int step_count(const Trace& trace);
int forward_step_count(const Trace& trace);

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
inline const Lane& model_lane(const Trace& trace, int rank) {
  return trace.lanes[trace.ranks[rank].first_lane + kModelTid];
}
// Return the outermost slices of that lane; empty if there is none.
const std::vector<Slice>& model_slices(const Trace& trace, int rank);

}  // namespace ringscope::viz

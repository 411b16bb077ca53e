// A trace in memory, of our own recordings and of any others: a recording (event.h) whose events lie
// in rows, rows in lanes, lanes in ranks, so that it can be asked what happened where and when.
// core/tools/foreign/trace_files.h reads files of traces. All times are in nanoseconds after the
// trace's base time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/trace/event.h"
#include "core/trace/summary.h"

namespace ringscope {

// Return a slice that is outside of any ring, and no message.
inline TraceEvent plain_slice() {
  TraceEvent slice{.lane = Lane::other, .step = -1, .kv_owner = -1};
  slice.src = slice.dst = -1;
  return slice;
}

// Return the slice's part of a kernel's part: those of the model come first.
inline constexpr int kModelParts = static_cast<int>(kAllOf<ModelPart>.size());
constexpr std::int8_t part_of(KernelPart part) {
  return static_cast<std::int8_t>(kModelParts + static_cast<int>(part));
}
// Return the kernel's part that a slice is, if it is one.
constexpr std::optional<KernelPart> kernel_part(const TraceEvent& slice) {
  if (slice.part < kModelParts) return std::nullopt;
  return static_cast<KernelPart>(slice.part - kModelParts);
}

// The slices of a TraceRow do not overlap and are sorted by begin.
struct TraceRow {
  std::uint32_t lane = 0;   // index in Trace::lanes
  std::uint32_t depth = 0;  // 0 for the lane's outermost slices
  std::uint32_t first = 0;  // index among the slices of its rank
  std::uint32_t count = 0;
  bool is_span = false;  // its slices are in Trace::spans, not among the rank's events
};

// A TraceLane is one thread, stream or kind of work of a rank. Its rows are neighbours in Trace::rows:
// one per level of nesting, and more where slices overlap without nesting.
struct TraceLane {
  std::uint32_t rank = 0;  // index in Trace::ranks
  std::int64_t tid = 0;
  std::string name;
  std::uint32_t first_row = 0;
  std::uint32_t rows = 0;
};

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

// A TraceFlow is a message from the slice that sends to the slice that receives.
struct TraceFlow {
  SliceId from, to;
};

// One layer in one iteration of a job that other programs profiled: how long it took, and which rank
// computed longest in it.
struct ProfiledLayer {
  int iteration = 0, layer = 0;
  double seconds = 0;  // of both passes
  int slowest_rank = 0;
  double slowness = 1;  // how many times as long as the median rank it computed
  // By pass: from the first rank's begin to the last one's end, in nanoseconds; empty: there is none.
  std::pair<std::int64_t, std::int64_t> passes[2] = {};
  std::vector<RankOverlap> overlaps = {};  // by rank, as the layer is shown

  std::string name() const { return std::to_string(iteration) + ":" + std::to_string(layer); }
};
// Return "layer 2", or of several iterations "layer 2 of iteration 1".
std::string words_of(const std::vector<ProfiledLayer>& layers, std::size_t which);

// A recording in rows. Of a trace that is not ours, `events` has the slices of each RankTrack, and
// nothing else that a Recording says holds.
struct Trace : Recording {
  std::string path;                     // as given; the first file's where several make one trace
  std::vector<std::string> more_paths;  // the others'
  bool is_ring = false;  // a recording of ours, where rank r is ranks[r] and has the lanes compute,
                         // send, recv and wait in this order, followed by the model's lane in a
                         // training step and the lanes of kernels
  std::vector<RankTrack> ranks;
  std::vector<TraceLane> lanes;
  std::vector<TraceRow> rows;
  std::vector<std::vector<TraceEvent>> spans;  // [rank]: what model and kernels did, as slices
  std::vector<TraceFlow> flows;
  std::vector<std::string> names;
  std::vector<std::string> notices;  // what the user should know: dropped events, dangling flows
  std::int64_t begin_ns = 0;         // of the earliest slice
  std::int64_t end_ns = 0;           // of the slice that ends last
  std::size_t slice_count = 0;
  int steps[2] = {};     // by pass: one more than its slices' highest step
  bool is_part = false;  // a recording of ours, of whose slices some are cut off
  // Of a job's profiles: all layers, the index of the one that is shown, and what shows another one, or
  // throws InputError.
  std::vector<ProfiledLayer> layers;
  std::size_t layer = 0;
  std::function<Trace(std::size_t)> of_layer;

  // Return whether the rest of the training step that the ring is part of was recorded too.
  bool has_model() const {
    return is_ring && !ranks.empty() && ranks[0].lanes > std::size(kAllLanes) &&
           lanes[ranks[0].first_lane + std::size(kAllLanes)].tid == kModelTid;
  }
  // Return whether kernels stamped what they did.
  bool has_kernel() const { return is_ring && !lanes.empty() && lanes.back().tid >= kKernelTid; }
  std::int64_t wall_ns() const { return end_ns - begin_ns; }
  std::span<const TraceEvent> slices(std::uint32_t row) const {
    const TraceRow& r = rows[row];
    return std::span((r.is_span ? spans : events)[lanes[r.lane].rank]).subspan(r.first, r.count);
  }
  std::span<TraceEvent> slices(std::uint32_t row) {
    const std::span<const TraceEvent> held = std::as_const(*this).slices(row);
    return {const_cast<TraceEvent*>(held.data()), held.size()};
  }
  const TraceEvent& slice(SliceId id) const { return slices(id.row)[id.index]; }
  int rank_count() const { return static_cast<int>(ranks.size()); }
  int rank_of_row(std::uint32_t row) const { return static_cast<int>(lanes[rows[row].lane].rank); }
  std::string_view name(const TraceEvent& slice) const { return names[slice.name]; }
  // Return the row of a rank's lane in a recording of ours.
  std::uint32_t row_of(int rank, Lane lane) const {
    const RankTrack& track = ranks[rank];
    return lanes[track.first_lane + static_cast<std::uint32_t>(lane)].first_row;
  }
  std::span<const TraceEvent> slices_of(int rank, Lane lane) const {
    return slices(row_of(rank, lane));
  }
};

// Return what a kernel stamped about a slice that is a part of it; null for any other.
const KernelSpan* kernel_span(const Trace& trace, SliceId id);

// Return the number of ring steps on the step axis: the forward steps, followed by the backward
// ones. It is 0 for a trace that is not ours.
inline int step_count(const Trace& trace) {
  return trace.is_ring ? trace.steps[0] + trace.steps[1] : 0;
}
inline int forward_step_count(const Trace& trace) { return trace.is_ring ? trace.steps[0] : 0; }

// Return total + more, for both >= 0, or the largest number if the sum does not fit.
inline std::int64_t saturating_sum(std::int64_t total, std::int64_t more) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(total, more, &sum) ? INT64_MAX : sum;
}

// ---
// Makes traces. Any trace's names are numbered, and its slices put into rows, by the same means.

// A NameTable holds every distinct text once, numbered by first use.
class NameTable {
 public:
  std::uint32_t number_of(std::string_view text);
  std::vector<std::string> take();

 private:
  std::deque<std::string> texts_;  // a deque, because growing must not move the keys' texts
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

inline constexpr std::size_t kMaxRows = 1000;

// Append a lane to the trace and to its last rank: `count` slices of the rank's store (TraceRow::is_span), from `first`
// on, distributed to rows in which none overlap, each sorted by begin. A slice lies in a deeper row than all
// that contain it, and in the first such row with room. Return the begin of the first slice that overlaps an
// earlier one without nesting, if there is one. Throw InputError if the lane would take more than kMaxRows.
std::optional<std::int64_t> append_lane(Trace& trace, std::int64_t tid, std::string name,
                                        std::size_t first, std::size_t count, bool is_span = false);

// Set begin_ns, end_ns, slice_count and steps from the rows.
void measure_extent(Trace& trace);

// Return the recording as a trace called `path`. Sends are joined to receives by `messages`. Throw
// InputError for slices that lie half over others.
Trace to_trace(Recording recording, const std::vector<RecordedMessage>& messages, std::string path);
Trace to_trace(Recording recording, std::string path);

// Return a trace of `ranks` (ascending) alone, which keep their names, with a list of events for each of them. It
// suits the timeline, but not what is asked of whole runs, because messages are joined only between these ranks.
Trace sample_trace(Recording recording, const std::vector<int>& ranks, std::string path);

}  // namespace ringscope

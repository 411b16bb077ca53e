// Makes the viewer's Trace of one of our recordings. Any trace's names are numbered, and its slices put
// into rows, by the same means.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "viz/data/trace/trace.h"

namespace ringscope::viz {

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

// Distribute the slices of a lane to rows in which none overlap, each sorted by begin. A slice lies
// in a deeper row than all that contain it, and in the first such row with room. Set `overlap`, which
// is -1, to the begin of the first slice that overlaps an earlier one without nesting. Throw InputError
// if the lane would take more than kMaxRows.
std::vector<std::vector<Slice>> rows_of(std::vector<Slice> slices, std::int64_t* overlap = nullptr);

// Append a lane with these rows to the trace and to its rank at `rank`, which is the last with lanes.
void append_lane(Trace& trace, std::size_t rank, std::int64_t tid, std::string name,
                 std::vector<std::vector<Slice>> rows);

// Set begin_ns, end_ns and slice_count from the rows.
void measure_extent(Trace& trace);

// Return the recording as a trace called `path`. Sends are joined to receives by `messages`. Throw
// InputError for slices that lie half over others.
Trace to_trace(Recording recording, const std::vector<RecordedMessage>& messages, std::string path);
Trace to_trace(Recording recording, std::string path);

// Return a trace of `ranks` (ascending) alone, which keep their names. Messages are joined only
// between these ranks, so the sample suits the timeline but neither idle times nor balance.
Trace sample_trace(Recording recording, const std::vector<int>& ranks, std::string path);

}  // namespace ringscope::viz

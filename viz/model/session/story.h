// Finds what a paragraph of a recording's story points at: the slices that it is about, and the
// moment at which to look at them.
#pragma once

#include <optional>
#include <string>

#include "core/trace/event.h"
#include "viz/model/timeline/axis.h"
#include "viz/model/trace/trace.h"

namespace ringscope::viz {

// Return whether the paragraph is about less than the whole run.
bool points_at_something(const StoryStep& told);
// Return whether it is about `slice` of a rank; false if it is about the whole run.
bool points_at(const StoryStep& told, int rank, const Slice& slice);

struct StoryMoment {
  std::optional<SliceId> slice;    // the slice that the playhead stands in
  int rank = -1;                   // the paragraph's own; -1: of all
  std::optional<double> position;  // on the axis; none if the paragraph is about no moment
};

// Return the middle of the longest slice that the paragraph is about, forward slices before
// backward ones and lanes in their order. A step without such slices still has a middle. `trace` is
// a recording of ours and `axis` is its own.
StoryMoment moment_of(const Trace& trace, const Axis& axis, AxisMode mode, const StoryStep& told);

// Return "rank 1 · backward step 2 · wait", or "" for the whole run.
std::string place_of(const StoryStep& told);

}  // namespace ringscope::viz

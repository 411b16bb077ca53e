// What a paragraph of a recording's story points at: the slices that it is about, and the moment at
// which to look at them.
#pragma once

#include <optional>
#include <string>

#include "core/trace/event.h"
#include "viz/model/timeline/axis.h"
#include "viz/model/trace/trace.h"

namespace ringscope::viz {

// Whether it is about less than the whole run.
bool points_at_something(const StoryStep& told);
// Whether it is about `slice` of a rank. False where it is about the whole run.
bool points_at(const StoryStep& told, int rank, const Slice& slice);

struct StoryMoment {
  std::optional<SliceId> slice;    // the one that the playhead stands in
  int rank = -1;                   // the paragraph's own; -1: of all
  std::optional<double> position;  // on the axis; none: the paragraph is about no moment
};

// Of the slices that it is about, the longest one's middle: of forward slices before backward ones,
// of lanes in their order. A step without such slices has a middle all the same. `trace` is a
// recording of ours, `axis` its own.
StoryMoment moment_of(const Trace& trace, const Axis& axis, AxisMode mode, const StoryStep& told);

// "rank 1 · backward step 2 · wait"; "" for the whole run.
std::string place_of(const StoryStep& told);

}  // namespace ringscope::viz

// A recording in memory as the viewer holds it: what the loader would make of the file that it was
// written to. For recordings that never were in one.
#pragma once

#include <string>
#include <vector>

#include "viz/model/trace/trace.h"

namespace ringscope::viz {

// `path` names it.
Trace to_trace(const Recording& recording, std::string path);

// Only what `ranks` (ascending) did: they become the trace's ranks, under their own names, and
// nothing is joined. For a sample of many: fit for the timeline, not for losses or balance.
Trace sample_trace(const Recording& recording, const std::vector<int>& ranks, std::string path);

}  // namespace ringscope::viz

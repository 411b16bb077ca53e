// Turns a recording in memory into the viewer's Trace, as the loader would do with its file. It is
// for recordings that were never written to a file; trace_loader.h reads those that were.
#pragma once

#include <string>
#include <vector>

#include "viz/model/trace/trace.h"

namespace ringscope::viz {

// Return the whole recording as a trace called `path`.
Trace to_trace(const Recording& recording, std::string path);

// Return a trace of `ranks` (ascending) alone, which keep their names. Messages are joined only
// between these ranks, so the sample suits the timeline but neither idle times nor balance.
Trace sample_trace(const Recording& recording, const std::vector<int>& ranks, std::string path);

}  // namespace ringscope::viz

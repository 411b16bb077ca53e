// Writes any traces, of one program or several, as one that Perfetto shows: names of processes and
// threads, slices, messages as flows, and counters of what all ranks do. Unlike a recording it is not meant to
// be read by Ringscope again.
#pragma once

#include <vector>

#include "core/base/files.h"
#include "core/trace/trace.h"

namespace ringscope {

// Write `traces`, each from its own beginning, into an open file, which the caller commits.
void write_merged_trace(AtomicFile& file, const std::vector<Trace>& traces);

}  // namespace ringscope

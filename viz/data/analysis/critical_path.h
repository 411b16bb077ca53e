// Finds the path that the run's length depends on. It walks back from the slice that ends last, each
// time to what the current one had to wait for in the scheme's loop. The segments tile the wall time
// exactly.
#pragma once

#include <cstdint>
#include <vector>

#include "viz/data/trace/trace.h"

namespace ringscope::viz {

struct PathSegment {
  enum Kind : std::uint8_t {
    compute,   // a compute slice of `rank`; in a training step also its work outside the ring
    link,      // a transfer to `rank`; it began when both ends were there
    overhead,  // nothing recorded explains it
  } kind = overhead;
  int rank = 0;
  std::int64_t begin_ns = 0, end_ns = 0;
  bool has_slice = false;
  SliceId slice;  // the compute slice or the recv slice
};

struct CriticalPath {
  std::vector<PathSegment> segments;  // by time, without gaps from begin_ns to end_ns of the trace
  std::int64_t compute_ns = 0, link_ns = 0, overhead_ns = 0;  // sum: the wall time

  // These are the segments' slices, ascending by row, then index. contains() searches them.
  std::vector<SliceId> slices;

  bool contains(SliceId id) const;
};

// Return the critical path of a recording of ours; empty for any other trace, and for a sample of ranks.
CriticalPath critical_path_of(const Trace& trace);

}  // namespace ringscope::viz

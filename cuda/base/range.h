// A named stretch of host code, which NVIDIA's profilers show on the thread's line. Costs next to
// nothing where no profiler listens.
#pragma once

#ifndef RINGSCOPE_MODEL
#include <nvtx3/nvToolsExt.h>
#endif

namespace ringscope::cuda {

#ifdef RINGSCOPE_MODEL
class Range {
 public:
  explicit Range(const char*) {}
  ~Range() {}  // not trivial: a variable that only marks a scope is not unused
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};
#else
class Range {
 public:
  explicit Range(const char* name) { nvtxRangePushA(name); }
  ~Range() { nvtxRangePop(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};
#endif

}  // namespace ringscope::cuda

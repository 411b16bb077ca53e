// A named range of host code, which NVIDIA's profilers show on the thread's line. It costs next to
// nothing when no profiler listens.
#pragma once

#ifndef RINGSCOPE_MODEL
#include <nvtx3/nvToolsExt.h>
#endif

namespace ringscope::cuda {

#ifdef RINGSCOPE_MODEL
class Range {
 public:
  explicit Range(const char*) {}
  ~Range() {}  // not trivial, so that a variable that only marks a scope does not count as unused
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

// A named range of host code, which NVIDIA's profilers show on the thread's line. It costs next to
// nothing when no profiler listens.
#pragma once

#ifndef RINGSCOPE_MODEL
#include <nvtx3/nvToolsExt.h>
#endif

namespace ringscope::cuda {

class Range {
 public:
  explicit Range([[maybe_unused]] const char* name) {
#ifndef RINGSCOPE_MODEL
    nvtxRangePushA(name);
#endif
  }
  ~Range() {
#ifndef RINGSCOPE_MODEL
    nvtxRangePop();
#endif
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace ringscope::cuda

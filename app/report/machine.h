// What this machine offers to a run: cores and memory.
#pragma once

#include <string>

#include "core/base/math.h"
#include "core/cost/measure.h"
#include "core/ring/problem.h"

namespace ringscope {

// Return the number of cores, at least 1.
int cores();

// Return the processor, the number of cores and the operating system, in a line.
std::string machine_text();

struct MemoryLimit {
  Index bytes = 0;
  std::string source;  // what sets it
};

// Return the tightest of three limits: the machine's free memory, the limits of this process's
// control groups, and the process's own limit on address space.
MemoryLimit available_memory();

// ---
// This machine as one on which `plan` and `simulate` place ranks.

inline constexpr const char* kMeasuredGpu = "this machine's cores";
inline constexpr const char* kMeasuredLink = "copying between threads";

// Measure the kernels, and the copies between as many threads as a job of `ranks` ranks has, up to
// a number that takes only a moment. Threads that take turns on a core find its caches full of each
// other's values.
CpuFigures measured_kernels(const Problem& job, int ranks);

}  // namespace ringscope

// What this machine offers to a run: cores and memory.
#pragma once

#include <string>

#include "core/base/math.h"

namespace ringscope {

// Return the number of cores, at least 1.
int cores();

struct MemoryLimit {
  Index bytes = 0;
  std::string source;  // what sets it
};

// Return the tightest of three limits: the machine's free memory, the limits of this process's
// control groups, and the process's own limit on address space.
MemoryLimit available_memory();

}  // namespace ringscope

// What this machine has for a run: cores and memory.
#pragma once

#include <string>

#include "core/base/math.h"

namespace ringscope {

// At least 1.
int cores();

struct MemoryLimit {
  Index bytes = 0;
  std::string source;  // what sets it
};

// The tightest of: what the machine has free, the limits of the control groups that this process is
// in, and the process's own limit on address space.
MemoryLimit available_memory();

}  // namespace ringscope

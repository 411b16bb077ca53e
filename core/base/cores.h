// How many cores there are for this process.
#pragma once

#ifdef __linux__
#include <sched.h>
#endif

#include <algorithm>
#include <thread>

namespace ringscope {

// Return the number of cores that this process may run on, at least 1. `taskset`, containers and
// clusters give it fewer than the machine has.
inline int cores() {
#ifdef __linux__
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    return std::max(1, CPU_COUNT(&allowed));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace ringscope

// The clocks of this machine: the monotonic one, which serves all ranks of a process, and the
// processor time of a thread or of the process.
#pragma once

#include <time.h>

#include <cstdint>

namespace ringscope {

inline std::int64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return std::int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
}

// Return the monotonic clock's nanoseconds. It is the clock of std::chrono::steady_clock.
inline std::int64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC); }

inline double seconds_since(std::int64_t begin_ns) {
  return static_cast<double>(monotonic_ns() - begin_ns) * 1e-9;
}

// Return the processor seconds of the calling thread, or of all threads of this process, so far.
inline double thread_cpu_seconds() {
  return static_cast<double>(clock_ns(CLOCK_THREAD_CPUTIME_ID)) * 1e-9;
}
inline double process_cpu_seconds() {
  return static_cast<double>(clock_ns(CLOCK_PROCESS_CPUTIME_ID)) * 1e-9;
}

}  // namespace ringscope

#include "core/cost/timing.h"

#include <time.h>

#include <chrono>
#include <limits>

namespace ringscope {

namespace {

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

double thread_cpu_seconds() { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }
double process_cpu_seconds() { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }

std::vector<double> fastest_of(double budget, const std::vector<std::function<void()>>& calls) {
  using Clock = std::chrono::steady_clock;
  constexpr int kTurns = 4;
  for (const auto& call : calls) call();  // to warm up
  std::vector<double> fastest(calls.size(), std::numeric_limits<double>::infinity());
  const Clock::time_point begin = Clock::now();
  const auto seconds_so_far = [&] {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  do {
    std::vector<double> seconds(calls.size(), 0);
    int turns = 0;
    do {
      for (std::size_t i = 0; i < calls.size(); ++i) {
        const double call_begin = thread_cpu_seconds();
        calls[i]();
        seconds[i] += thread_cpu_seconds() - call_begin;
      }
    } while (++turns < kTurns && seconds_so_far() < budget);
    for (std::size_t i = 0; i < calls.size(); ++i)
      fastest[i] = std::min(fastest[i], seconds[i] / turns);
  } while (seconds_so_far() < budget);
  return fastest;
}

}  // namespace ringscope

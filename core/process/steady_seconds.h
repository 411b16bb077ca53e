// The one clock for all deadlines of this process.
#pragma once

#include <chrono>

namespace ringscope {

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace ringscope

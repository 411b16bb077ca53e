// Sums of counts that a trace claims: whatever it claims, they stay counts.
#pragma once

#include <cstdint>
#include <limits>

namespace ringscope::viz {

// total + more, for both >= 0; the largest number where it does not fit.
inline std::int64_t saturating_sum(std::int64_t total, std::int64_t more) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(total, more, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

}  // namespace ringscope::viz

// Values so large that products and sums of them overflow f32 although the result fits: an output,
// which is a mean of V, or a gradient whose dP - delta cancels. Rows that meet such values are
// computed in other units. These are powers of two, so no digit changes.
//
//   lowered rows   Where a row meets a large V, its weights, and with them row_sum and out_accum,
//                  are multiplied by 2^-h, so that seqlen of them together stay below 1/4. row_sum
//                  tells: the largest weight of any other row is 1, and so its row_sum is at least 1.
//   dO's unit      Where a row is lowered, or its dO is large, its dO counts in units of 2^e while
//                  dP, delta, dS and dQ are computed. Anybody who knows the row's dO and row_sum knows e.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/base/math.h"

namespace ringscope {

// V is large from here on. A sum of products with smaller values overflows for no dO that keeps unit 1.
inline constexpr float kLargeValue = 0x1p60f;

// Return 2^-h.
inline double lowered_weight(Index seqlen) {
  return std::ldexp(1.0, -2 - static_cast<int>(std::bit_width(static_cast<std::uint64_t>(seqlen))));
}

inline bool is_lowered(double row_sum) { return 0 < row_sum && row_sum < 0.5; }

// Return what a weight of 1 is in a row with this row_sum.
inline double weight_unit(double row_sum, Index seqlen) {
  return is_lowered(row_sum) ? lowered_weight(seqlen) : 1.0;
}

// Return a mean of V as f32. It is not larger than V, except by rounding.
inline float mean_of_values(double mean) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::isfinite(mean) ? std::clamp(mean, -kMost, kMost) : mean);
}

// Return e of a row, at least 0, whose |dO| sum up to `dout_sum`. With it |dO . V| < 2^122 in rows
// that are not lowered, and < 2^112 in others, whose dQ then has room for small softmax_scale.
inline int unit_exponent(double dout_sum, double row_sum) {
  if (!std::isfinite(dout_sum)) return 0;
  int exponent = 0;
  std::frexp(dout_sum, &exponent);  // dout_sum < 2^exponent
  const int most = is_lowered(row_sum) ? -16 : 62;
  return exponent > most ? exponent - most : 0;
}

}  // namespace ringscope

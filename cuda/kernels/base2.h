// Exponents in base 2: exp(x) = exp2(x log2(e)). exp2 is one instruction, and the factor log2(e)
// joins the multiplication by softmax_scale.
#pragma once

#include <cmath>
#include <limits>

namespace ringscope::cuda {

inline constexpr float kLog2e = 1.44269504088896340736f, kLn2 = 0.69314718055994530942f;

// Return |softmax_scale| log2(e), but at least the smallest normal number, also when softmax_scale
// is 0. So a masked score's -inf stays -inf, and a scale of 0 turns all other scores into 0.
inline float exponent_scale_of(float softmax_scale) {
  const double scale = std::fabs(static_cast<double>(softmax_scale)) * 1.44269504088896340736;
  return std::fmax(static_cast<float>(scale), std::numeric_limits<float>::min());
}

}  // namespace ringscope::cuda

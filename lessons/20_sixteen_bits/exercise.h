// Exercise 20: rounding to bf16, and a sum that survives it.
//
// A bf16 is the upper 16 bits of an f32. Rounding goes to the nearest one; a number in the middle
// between two goes to the one whose last bit is 0.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

// Return `value` rounded to bf16, as a float whose lower 16 bits are 0. `value` is finite.
inline float to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>(bits & 0xffff0000u);  // not yet right: this always rounds towards 0
}

// Return the sum of `values`. Whatever is kept from one addition to the next must have gone through
// to_bf16(). Added one by one, ones stand still at 256. Which other order lets 1,000 ones be 1,000?
inline float sum_in_bf16(const std::vector<float>& values) {
  float sum = 0;
  for (const float value : values) sum = to_bf16(sum + value);  // not yet right
  return sum;
}

// Exercise 17: round to bf16, and add up a thousand ones without standing still.
//
//   to_bf16   the nearest bf16 number, as a float; a tie goes to the one whose last bit is 0. A bf16
//             is the upper half of a float's bits (std::bit_cast<std::uint32_t>).
//   sum_of    the sum of the numbers, all of them bf16. The result is one, too, and the running sum
//             may be a float.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

inline float to_bf16(float x) {
  return x;  // to be written
}

inline float sum_of(const std::vector<float>& numbers) {
  float sum = 0;
  for (const float x : numbers) sum = to_bf16(sum + x);  // to be mended
  return sum;
}

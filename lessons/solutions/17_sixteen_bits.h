// Exercise 17, solved.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

inline float to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t half = 0x7fff + (bits >> 16 & 1);  // just below a tie if the last bit is 0
  return std::bit_cast<float>((bits + half) & 0xffff0000);
}

inline float sum_of(const std::vector<float>& numbers) {
  float running = 0;
  for (const float x : numbers) running += x;
  return to_bf16(running);
}

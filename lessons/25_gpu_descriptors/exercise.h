// Exercise 25: the descriptor of an operand, as lesson 25 lists its bits.
#pragma once

#include <cstdint>

// Return the descriptor of swizzled rows of 128 bytes that are summed along. All arguments are in
// bytes, and multiples of 16. The start may have more than 18 bits: the upper ones don't belong to it.
inline std::uint64_t descriptor(std::uint32_t start, std::uint32_t leading, std::uint32_t stride) {
  return start;  // not yet right: bytes, and nothing but the start
}

// Return the descriptor of the operand's next 16 columns, two bytes each.
inline std::uint64_t next(std::uint64_t operand) {
  return operand;  // not yet right
}

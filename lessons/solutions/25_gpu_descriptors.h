// Exercise 25, solved.
#pragma once

#include <cstdint>

inline std::uint64_t descriptor(std::uint32_t start, std::uint32_t leading, std::uint32_t stride) {
  const auto field = [](std::uint32_t bytes, int bit) {
    return std::uint64_t{bytes / 16 % (1u << 14)} << bit;
  };
  return field(start, 0) | field(leading, 16) | field(stride, 32) | std::uint64_t{1} << 62;
}

inline std::uint64_t next(std::uint64_t operand) { return operand + 2; }

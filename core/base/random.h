// Random numbers by counter: each value is a pure function of (seed, stream, index), so any rank of
// any cluster can produce its own rows without the others', in any order, and all agree.
//
// A stream is splitmix64 begun at a hash of seed and stream number; because that generator's state
// only counts up, its n-th output is reached at once. normal() feeds two outputs to Box and
// Muller's formula.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "core/base/math.h"

namespace ringscope {

// The tensors that can be drawn; the numbers are part of what a seed means.
enum class RandomTensor : std::uint64_t { q = 0, k = 1, v = 2, dout = 3 };

// splitmix64's output function: a bijection of 64-bit words in which every input bit reaches every
// output bit.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Output `index` of stream `stream` of `seed`.
constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  constexpr std::uint64_t kStride = 0x9e3779b97f4a7c15u;  // 2^64 / golden ratio, odd
  const std::uint64_t start = mix64(mix64(seed + kStride) + (stream + 1) * kStride);
  return mix64(start + (index + 1) * kStride);
}

// [0, 1), in steps of 2^-53.
constexpr double unit_interval(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

// From the exponential distribution of mean 1.
inline double exponential(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return -std::log(1.0 - unit_interval(random_bits(seed, stream, index)));  // of (0, 1]: finite
}

// N(0, 1): element `index` (in C order, of the whole tensor) of `tensor`.
inline double normal(std::uint64_t seed, RandomTensor tensor, Index index) {
  const auto stream = static_cast<std::uint64_t>(tensor);
  const auto n = static_cast<std::uint64_t>(index);
  const double radius =
      1.0 - unit_interval(random_bits(seed, stream, 2 * n));  // (0, 1]: log is finite
  const double angle = unit_interval(random_bits(seed, stream, 2 * n + 1));
  return std::sqrt(-2.0 * std::log(radius)) * std::cos(2.0 * std::numbers::pi * angle);
}

}  // namespace ringscope

// Counter-based random numbers. Each value is a pure function of (seed, stream, index), so any rank
// can produce its own rows in any order and all ranks agree.
//
// A stream is splitmix64 started at a hash of the seed and the stream number. That generator's
// state only counts up, so its n-th output is computed directly. normal() feeds two outputs to the
// Box-Muller formula.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "core/base/math.h"

namespace ringscope {

// The tensors that can be drawn. The meaning of a seed depends on these numbers.
enum class RandomTensor : std::uint64_t { q = 0, k = 1, v = 2, dout = 3, sink_logits = 4 };

// Return splitmix64's output for state x: a bijection of 64-bit words in which every input bit
// affects every output bit.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Return output `index` of stream `stream` of `seed`.
constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  constexpr std::uint64_t kStride = 0x9e3779b97f4a7c15u;  // 2^64 / golden ratio, odd
  const std::uint64_t start = mix64(mix64(seed + kStride) + (stream + 1) * kStride);
  return mix64(start + (index + 1) * kStride);
}

// Return a number in [0, 1), a multiple of 2^-53.
constexpr double unit_interval(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

// Draw from the exponential distribution of mean 1.
inline double exponential(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return -std::log(1.0 - unit_interval(random_bits(seed, stream, index)));  // finite: log of (0, 1]
}

// Draw element `index` (in C order, of the whole tensor) of `tensor` from N(0, 1).
inline double normal(std::uint64_t seed, RandomTensor tensor, Index index) {
  const auto stream = static_cast<std::uint64_t>(tensor);
  const auto n = static_cast<std::uint64_t>(index);
  const double radius =
      1.0 - unit_interval(random_bits(seed, stream, 2 * n));  // in (0, 1], so its log is finite
  const double angle = unit_interval(random_bits(seed, stream, 2 * n + 1));
  return std::sqrt(-2.0 * std::log(radius)) * std::cos(2.0 * std::numbers::pi * angle);
}

}  // namespace ringscope

// Chance by counter: a draw is a pure function of seed, what it is for, rank and step, so that it is
// the same in whatever order a simulation asks, and the same for every pace and scheme.
#pragma once

#include <cstdint>

#include "core/base/random.h"
#include "core/trace/event.h"

namespace ringscope {

// What is drawn for.
enum class JitterOf : std::uint64_t { compute = 0, kv_hop = 1, gradient_hop = 2 };

// From the exponential distribution of mean 1. Hops are their sender's.
inline double jitter_draw(std::uint64_t seed, JitterOf what, Pass pass, int rank, int step) {
  const std::uint64_t stream =
      2 * static_cast<std::uint64_t>(what) + static_cast<std::uint64_t>(pass);
  const std::uint64_t index = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(step)) << 32) |
                              static_cast<std::uint32_t>(rank);
  return exponential(seed, stream, index);
}

}  // namespace ringscope

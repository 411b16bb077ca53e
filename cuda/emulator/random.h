// Small repeatable random numbers for schedules.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/random.h"

namespace ringscope::cuda::model {

// SplitMix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t operator()() { return mix64(state_ += 0x9e3779b97f4a7c15); }
  // Return a number in [0, limit).
  std::size_t below(std::size_t limit) { return (*this)() % limit; }

 private:
  std::uint64_t state_;
};

}  // namespace ringscope::cuda::model

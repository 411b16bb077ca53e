// Small repeatable random numbers for schedules.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringscope::cuda::model {

// SplitMix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t operator()() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  // Return a number in [0, limit).
  std::size_t below(std::size_t limit) { return (*this)() % limit; }

 private:
  std::uint64_t state_;
};

}  // namespace ringscope::cuda::model

// Random numbers by counter.
#include "core/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace ringscope {
namespace {

constexpr Index kCount = 1 << 20;

std::vector<double> draw(std::uint64_t seed, RandomTensor tensor, Index count) {
  std::vector<double> values;
  for (Index i = 0; i < count; ++i) values.push_back(normal(seed, tensor, i));
  return values;
}

// Kolmogorov's distance between the samples' distribution and the normal one; beyond 2.2 / sqrt(n)
// once in ten thousand.
TEST(Random, DistributionIsNormal) {
  std::vector<double> x = draw(2, RandomTensor::v, kCount);
  EXPECT_TRUE(std::all_of(x.begin(), x.end(), [](double a) { return std::isfinite(a); }));
  std::sort(x.begin(), x.end());
  double distance = 0;
  for (Index i = 0; i < kCount; ++i) {
    const double below = 0.5 * std::erfc(-x[i] / std::sqrt(2.0));
    distance = std::max({distance, std::abs(below - static_cast<double>(i) / kCount),
                         std::abs(below - static_cast<double>(i + 1) / kCount)});
  }
  EXPECT_LE(distance, 2.2 / std::sqrt(static_cast<double>(kCount)));
}

// Neighbours, tensors and seeds: the correlation of independent samples is N(0, 1/n).
TEST(Random, StreamsAreIndependent) {
  const double five_errors = 5 / std::sqrt(static_cast<double>(kCount));
  const std::vector<double> x = draw(1, RandomTensor::q, kCount);
  const auto correlation = [&](const std::vector<double>& y, Index lag) {
    double sum = 0;
    for (Index i = 0; i + lag < kCount; ++i) sum += x[i] * y[i + lag];
    return sum / static_cast<double>(kCount);
  };
  for (const Index lag : {1, 2, 64, 4096})
    EXPECT_LE(std::abs(correlation(x, lag)), five_errors) << lag;
  for (const RandomTensor other : {RandomTensor::k, RandomTensor::v, RandomTensor::dout})
    EXPECT_LE(std::abs(correlation(draw(1, other, kCount), 0)), five_errors);
  for (const std::uint64_t seed : {0ull, 2ull, 1ull << 32, ~0ull})
    EXPECT_LE(std::abs(correlation(draw(seed, RandomTensor::q, kCount), 0)), five_errors) << seed;
}

TEST(Random, ValuesDependOnNothingButTheirIndex) {
  const std::vector<double> forwards = draw(7, RandomTensor::k, 1000);
  for (Index i = 999; i >= 0; --i) {
    normal(7, RandomTensor::k, 3 * i);  // whatever was drawn before
    EXPECT_EQ(normal(7, RandomTensor::k, i), forwards[i]);
  }
  EXPECT_TRUE(std::isfinite(normal(7, RandomTensor::k, INT64_MAX)));
}

// The output function against the published first outputs of splitmix64 begun at 1234567, which is
// what mix64 over a counter of golden-ratio steps is.
TEST(Random, MixingIsThatOfSplitmix64) {
  constexpr std::uint64_t kStride = 0x9e3779b97f4a7c15u;
  EXPECT_EQ(mix64(1234567 + kStride), 6457827717110365317u);
  EXPECT_EQ(mix64(1234567 + 2 * kStride), 3203168211198807973u);
}

TEST(Random, NoTwoEarlyOutputsCoincide) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    for (std::uint64_t stream = 0; stream < 10; ++stream)
      for (std::uint64_t i = 0; i < 100; ++i) seen.insert(random_bits(seed, stream, i));
  EXPECT_EQ(seen.size(), 10'000u);
}

TEST(Random, UnitIntervalStaysBelowOne) {
  EXPECT_EQ(unit_interval(0), 0.0);
  EXPECT_LT(unit_interval(~std::uint64_t{0}), 1.0);
}

}  // namespace
}  // namespace ringscope

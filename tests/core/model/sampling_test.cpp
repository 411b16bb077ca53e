#include "core/model/generate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/base/error.h"

namespace ringscope {
namespace {

constexpr float kLogits[] = {0.5f, -1.0f, 2.0f, 2.0f, 0.0f};

TEST(Sampling, TemperatureZeroTakesTheFirstOfTheLikeliest) {
  for (std::uint64_t place = 0; place < 100; ++place)
    EXPECT_EQ(sample({.temperature = 0, .seed = place}, 5, kLogits, place), 2);
}

// Over 40,000 draws a frequency is off by more than 5 deviations, 5 * sqrt(p (1-p) / 40000), once
// in a million; the draws are the same every time.
TEST(Sampling, FrequenciesAreTheSoftmaxs) {
  for (const double temperature : {0.5, 1.0, 3.0}) {
    constexpr int kDraws = 40000;
    std::vector<double> counts(5);
    for (std::uint64_t place = 0; place < kDraws; ++place)
      ++counts[sample({temperature, 11}, 5, kLogits, place)];
    double sum = 0;
    for (const float z : kLogits) sum += std::exp(z / temperature);
    for (int i = 0; i < 5; ++i) {
      const double p = std::exp(kLogits[i] / temperature) / sum;
      EXPECT_NEAR(counts[i] / kDraws, p, 5 * std::sqrt(p * (1 - p) / kDraws)) << temperature;
    }
  }
}

TEST(Sampling, DependsOnSeedAndPlaceAlone) {
  int same_place = 0, same_seed = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto drawn = sample({1, 3}, 5, kLogits, i);
    EXPECT_EQ(drawn, sample({1, 3}, 5, kLogits, i));
    same_place += drawn == sample({1, 4}, 5, kLogits, i) ? 1 : 0;
    same_seed += drawn == sample({1, 3}, 5, kLogits, i + 1000) ? 1 : 0;
  }
  EXPECT_LT(same_place, 600);  // 0.35 of them by chance
  EXPECT_LT(same_seed, 600);
}

TEST(Sampling, LargeLogitsAndSmallTemperaturesDoNotOverflow) {
  const float logits[] = {3e38f, -3e38f, 2e38f};
  EXPECT_EQ(sample({1e-3, 1}, 3, logits, 5), 0);
  EXPECT_EQ(sample({1e-300, 1}, 3, logits, 5), 0);
}

TEST(Sampling, RefusesWhatIsNoDistribution) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const double temperature : {-0.5, inf, std::nan("")})
    EXPECT_THROW(validate({.temperature = temperature}), InputError);
  EXPECT_NO_THROW(validate({.temperature = 0}));
  const float logits[] = {0, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_THROW(sample({}, 2, logits, 0), RunError);
}

}  // namespace
}  // namespace ringscope

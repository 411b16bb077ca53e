#include "viz/model/analysis/run_rates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace ringscope::viz {
namespace {

TEST(LineFit, FindsALineExactly) {
  const LineFit fit = fit_line({{10, 7}, {20, 12}, {60, 32}}, 10);  // 0.5 x + 2
  EXPECT_NEAR(fit.per_unit[0], 0.5, 1e-12);
  EXPECT_NEAR(fit.fixed, 2, 1e-10);
  EXPECT_EQ(fit.per_unit[1], 0);
}

TEST(LineFit, GroupsHaveSlopesOfTheirOwnAndOneFixedTime) {
  const LineFit two = fit_line({{10, 8, 0}, {20, 13, 0}, {5, 13, 1}, {10, 23, 1}, {40, 23, 0}}, 10);
  EXPECT_NEAR(two.per_unit[0], 0.5, 1e-12);
  EXPECT_NEAR(two.per_unit[1], 2, 1e-12);
  EXPECT_NEAR(two.fixed, 3, 1e-10);
}

// Without different amounts nothing tells what is fixed.
TEST(LineFit, EqualAmountsHaveNothingFixed) {
  const LineFit fit = fit_line({{10, 7}, {10, 7}, {10, 9}, {10, 9}}, 10);
  EXPECT_EQ(fit.fixed, 0);
  EXPECT_NEAR(fit.per_unit[0], 0.8, 1e-12);
}

TEST(LineFit, NoiseIsNotFixedTime) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> noise(0.8, 1.2);
  std::vector<Measured> measured;
  for (int i = 1; i <= 40; ++i) measured.push_back({double(100 + i), (100 + i) * noise(random)});
  EXPECT_EQ(fit_line(measured, 10).fixed, 0);
}

// Times come out right in sum, and what is fixed is not more than anything took.
TEST(LineFit, SumsAreKept) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> any(1, 9);
  for (int round = 0; round < 200; ++round) {
    std::vector<Measured> measured;
    double least = 1e9;
    for (int i = 0; i < 12; ++i) {
      measured.push_back({any(random), any(random), i % 2});
      least = std::min(least, measured.back().seconds);
    }
    const LineFit fit = fit_line(measured, 10);
    EXPECT_GE(fit.fixed, 0);
    EXPECT_LE(fit.fixed, least);
    double sum[2] = {}, fitted[2] = {};
    for (const Measured& m : measured) {
      sum[m.group] += m.seconds;
      fitted[m.group] += fit.fixed + fit.per_unit[m.group] * m.amount;
    }
    for (const int group : {0, 1}) EXPECT_NEAR(sum[group], fitted[group], 1e-9 * sum[group]);
  }
}

TEST(LineFit, WhatIsTooMuchIsNotFixed) {
  const std::vector<Measured> measured = {{10, 7}, {20, 12}, {60, 32}};
  EXPECT_EQ(fit_line(measured, 1.9).fixed, 0);
  EXPECT_NEAR(fit_line(measured, 1.9).per_unit[0], 51.0 / 90, 1e-12);
}

TEST(LineFit, OfNothing) {
  const LineFit fit = fit_line({}, 10);
  EXPECT_EQ(fit.fixed, 0);
  EXPECT_EQ(fit.per_unit[0], 0);
}

TEST(LineFit, NoTimeAtAll) {
  const LineFit fit = fit_line({{10, 0}, {20, 0}, {30, 0}, {40, 0}}, 10);
  EXPECT_EQ(fit.fixed, 0);
  EXPECT_EQ(fit.per_unit[0], 0);
}

}  // namespace
}  // namespace ringscope::viz

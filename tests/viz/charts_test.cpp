// Axes of charts have round ticks.
#include <gtest/gtest.h>

#include <cmath>

#include "viz/panels/charts/charts.h"

namespace ringscope::viz {
namespace {

std::vector<std::string> labels(const ChartScale& scale) {
  std::vector<std::string> result;
  for (const Tick& tick : scale.ticks) result.push_back(tick.label);
  return result;
}

std::string plain(double value) { return std::to_string(std::lround(value)); }

using Strings = std::vector<std::string>;

TEST(ChartScale, LinearTicksAreRoundAndHoldTheValues) {
  const ChartScale scale = linear_scale(0, 47, 5, plain);
  EXPECT_EQ(labels(scale), (Strings{"0", "10", "20", "30", "40", "50"}));
  EXPECT_EQ(scale.share(0), 0);
  EXPECT_EQ(scale.share(50), 1);
  EXPECT_EQ(scale.share(25), 0.5);
  EXPECT_EQ(labels(linear_scale(0, 100, 5, plain)).back(), "100");
  EXPECT_GE(linear_scale(0, 0, 5, plain).ticks.size(), 2u);
}

}  // namespace
}  // namespace ringscope::viz

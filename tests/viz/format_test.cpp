// Numbers as people read them.
#include "viz/panels/format.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ringscope::viz {
namespace {

TEST(Format, TimesHaveThreeDigitsAndOneUnit) {
  EXPECT_EQ(time_text(0), "0 ns");
  EXPECT_EQ(time_text(7), "7 ns");
  EXPECT_EQ(time_text(999), "999 ns");
  EXPECT_EQ(time_text(1000), "1.00 µs");
  EXPECT_EQ(time_text(1250000), "1.25 ms");
  EXPECT_EQ(time_text(12345678), "12.3 ms");
  EXPECT_EQ(time_text(123456789), "123 ms");
  EXPECT_EQ(time_text(2.5e9), "2.50 s");
  EXPECT_EQ(time_text(-1500), "-1.50 µs");
}

// Nobody reads "1000 µs" or "10.00 ms".
TEST(Format, RoundingUpTakesTheNextUnit) {
  EXPECT_EQ(time_text(999999), "1.00 ms");
  EXPECT_EQ(time_text(999400), "999 µs");
  EXPECT_EQ(time_text(9996000), "10.0 ms");
  EXPECT_EQ(time_text(99960000), "100 ms");
}

TEST(Format, Bytes) {
  EXPECT_EQ(bytes_text(512), "512 B");
  EXPECT_EQ(bytes_text(1024), "1.00 KiB");
  EXPECT_EQ(bytes_text(1010 * 1024.0), "1010 KiB");
  EXPECT_EQ(bytes_text(16777216), "16.0 MiB");
  EXPECT_EQ(bytes_text(3.0 * 1024 * 1024 * 1024), "3.00 GiB");
  EXPECT_EQ(bandwidth_text(1.9 * 1024 * 1024 * 1024), "1.90 GiB/s");
}

TEST(Format, CountsAndFlops) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(134217728), "134 M");
  EXPECT_EQ(count_text(1500), "1.50 k");
  EXPECT_EQ(flops_text(34363932672), "34.4 GFLOP");
  EXPECT_EQ(flops_text(1e15), "1.00 PFLOP");
}

TEST(Format, Percent) {
  EXPECT_EQ(percent_text(0.125), "12.5 %");
  EXPECT_EQ(percent_text(1), "100.0 %");
  EXPECT_EQ(percent_text(0), "0.0 %");
}

TEST(Format, WhatIsNoNumberIsADash) {
  EXPECT_EQ(time_text(std::nan("")), "–");
  EXPECT_EQ(percent_text(std::nan("")), "– %");
  EXPECT_EQ(count_text(INFINITY), "∞");
  EXPECT_EQ(count_text(-INFINITY), "-∞");
  EXPECT_EQ(time_text(-0.0), "0 ns");
}

}  // namespace
}  // namespace ringscope::viz

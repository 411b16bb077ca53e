// Pictures of charts. Of a sweep: round ticks, which curves a table allows, and that it is drawn.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "viz/panels/charts/charts.h"
#include "viz/window/pictures.h"

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

TEST(ChartScale, LogTicksAreOneTwoFiveAndHoldTheValues) {
  const ChartScale scale = log_scale(3, 40, 10, plain);
  EXPECT_EQ(labels(scale), (Strings{"5", "10", "20"}));
  EXPECT_GT(scale.share(3), 0);
  EXPECT_LT(scale.share(40), 1);
  EXPECT_NEAR(scale.share(40) - scale.share(20), scale.share(10) - scale.share(5), 1e-12);
  const ChartScale wide = log_scale(1e-6, 1e3, 10, tick_time_text);
  EXPECT_LE(wide.ticks.size(), 12u);
  EXPECT_GE(wide.ticks.size(), 5u);
  for (const Tick& tick : wide.ticks)
    EXPECT_NEAR(std::log10(tick.at), std::round(std::log10(tick.at)), 1e-9) << tick.label;
  const ChartScale one = log_scale(10, 10, 10, plain);
  EXPECT_EQ(labels(one), (Strings{"5", "10", "20"}));
}

TEST(ChartScale, SweptValuesLieAsEvenlyAsTheyCan) {
  EXPECT_TRUE(scale_at({1024, 2048, 4096, 8192}, 8, tokens_text).logarithmic);
  EXPECT_FALSE(scale_at({1, 2, 3, 4}, 8, plain).logarithmic);
  EXPECT_FALSE(scale_at({0, 1, 10, 100}, 8, plain).logarithmic);
  EXPECT_EQ(scale_at({1, 2, 3, 4, 5, 6, 7, 8}, 4, plain).ticks.size(), 4u);
  EXPECT_EQ(scale_at({7}, 4, plain).share(7), 0.5);
}

TEST(ChartScale, TextsAreShort) {
  EXPECT_EQ(tick_time_text(0.5), "500 ms");
  EXPECT_EQ(tick_time_text(2), "2 s");
  EXPECT_EQ(tick_time_text(5e-5), "50 µs");
  EXPECT_EQ(tick_time_text(0), "0");
  EXPECT_EQ(tokens_text(8192), "8k");
  EXPECT_EQ(tokens_text(1048576), "1M");
  EXPECT_EQ(tokens_text(1000), "1000");
}

SweepTable table_of(const std::string& sweep) {
  Scenario base;
  base.job.shape = {1, 8, 8, 4096, 64};
  base.job.mask = MaskSpec::parse("causal");
  base.job.world_size = 4;
  base.rates = {1e13, 1e13, 1e10, 1e-6};
  SweepTable table = points_of(base, parse_sweep(sweep));
  run_sweep(table);
  return table;
}

TEST(SweepCharts, SeqlenAndWorldSizeGiveTwoCharts) {
  const SweepTable table = table_of("seqlen=1024:8192:*2 world-size=2,4 partition=zigzag,striped");
  const ChartPage page = page_of(table, "a machine");
  ASSERT_EQ(page.charts.size(), 2u);
  const CurveChart &time = page.charts[0], &efficiency = page.charts[1];
  EXPECT_NE(time.x_title.find("seqlen"), std::string::npos);
  EXPECT_NE(efficiency.x_title.find("world_size"), std::string::npos);
  ASSERT_EQ(time.curves.size(), 4u);
  std::set<int> colors;
  for (const Curve& curve : time.curves) {
    colors.insert(curve.color);
    ASSERT_EQ(curve.points.size(), 4u);
  }
  EXPECT_EQ(colors.size(), 4u);
  // The first curve: 2 ranks, zigzag.
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(time.curves[0].points[i].x, 1024 << i);
    EXPECT_EQ(time.curves[0].points[i].y, table.point({i, 0, 0}).figures.wall_s);
  }
  EXPECT_EQ(time.curves[0].name, "2 ranks, zigzag");
  for (const CurveChart& chart : page.charts)
    for (const Curve& curve : chart.curves)
      for (const CurvePoint& point : curve.points) {
        EXPECT_GE(point.y, chart.y.low);
        EXPECT_LE(point.y, chart.y.high);
      }
}

TEST(SweepCharts, TooManyCurvesAreThinned) {
  const ChartPage page = page_of(
      table_of("seqlen=256:2048:+256 world-size=1:6:+1 partition=contiguous,zigzag,striped,fold"),
      "");
  for (const CurveChart& chart : page.charts) {
    EXPECT_LE(chart.curves.size(), 8u);
    EXPECT_GE(chart.curves.size(), 4u);
  }
}

TEST(SweepCharts, NamesStandAtEqualDistances) {
  const CurveChart time =
      page_of(table_of("partition=zigzag,contiguous,fold mask=full,causal"), "").charts[0];
  EXPECT_EQ(labels(time.x), (Strings{"zigzag", "contiguous", "fold"}));
  ASSERT_EQ(time.curves.size(), 2u);
  EXPECT_EQ(time.curves[1].name, "causal");
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(time.curves[1].points[i].x, i);
  EXPECT_GT(time.curves[1].points[1].y, time.curves[1].points[0].y);
}

TEST(SweepCharts, WhatCantBeDoneIsLeftOut) {
  const ChartPage page = page_of(table_of("world-size=4,9 seqlen=512,1024 scheme=ulysses"), "");
  const auto& curves = page.charts[1].curves;  // 8 heads for 9 ranks
  EXPECT_TRUE(std::all_of(curves.begin(), curves.end(),
                          [](const Curve& curve) { return curve.points.size() == 1; }));
}

// Every curve's colour is somewhere in the picture, and the same table is the same picture.
TEST(SweepCharts, AreDrawn) {
  for (const char* sweep : {"seqlen=1024:8192:*2 world-size=2,4 partition=zigzag,striped",
                            "jitter=0,0.1,0.2 kv-buffers=in-step,2,4", "mask=full,causal",
                            "seqlen=1024", "scheme=ulysses world-size=9,10"}) {
    const SweepTable table = table_of(sweep);
    const Image image = sweep_image(table, "a machine");
    ASSERT_EQ(image.width, 1600);
    ASSERT_EQ(image.height, 1000);
    EXPECT_EQ(image.pixels, sweep_image(table, "a machine").pixels);
    const std::set<Color> colors(image.pixels.begin(), image.pixels.end());
    for (const CurveChart& chart : page_of(table, "a machine").charts)
      for (const Curve& curve : chart.curves)
        EXPECT_TRUE(curve.points.empty() ||
                    colors.contains(owner_color(Theme::dark, curve.color, 8)))
            << sweep << ": " << curve.name;
    EXPECT_GT(colors.size(), 20u);
  }
}

}  // namespace
}  // namespace ringscope::viz

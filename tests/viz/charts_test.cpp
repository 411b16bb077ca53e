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

TEST(SweepPicture, SeqlenAndWorldSizeGiveTwoChartsAndAMap) {
  const SweepTable table = table_of("seqlen=1024:8192:*2 world-size=2,4 partition=zigzag,striped");
  const SweepPicture picture = picture_of(table, "a machine");
  ASSERT_EQ(picture.curves.size(), 2u);
  EXPECT_TRUE(picture.bars.empty());
  const CurveChart &time = picture.curves[0], &efficiency = picture.curves[1];
  EXPECT_NE(time.x_title.find("seqlen"), std::string::npos);
  EXPECT_NE(efficiency.x_title.find("world_size"), std::string::npos);
  // Partitions in colours, ranks in shades of them.
  ASSERT_EQ(time.curves.size(), 4u);
  std::set<std::pair<int, double>> looks;
  for (const Curve& curve : time.curves) {
    looks.insert({curve.color, curve.strength});
    ASSERT_EQ(curve.points.size(), 4u);
  }
  EXPECT_EQ(looks.size(), 4u);
  // The first curve: 2 ranks, zigzag.
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(time.curves[0].points[i].x, 1024 << i);
    EXPECT_EQ(time.curves[0].points[i].y, table.point({i, 0, 0}).figures.wall_s);
  }
  EXPECT_EQ(time.curves[0].name, "2 ranks, zigzag");
  for (const CurveChart& chart : picture.curves)
    for (const Curve& curve : chart.curves)
      for (const CurvePoint& point : curve.points) {
        EXPECT_GE(point.y, chart.y.low);
        EXPECT_LE(point.y, chart.y.high);
      }
  ASSERT_EQ(picture.maps.size(), 2u);
  EXPECT_EQ(picture.maps[0].columns, (Strings{"1k", "2k", "4k", "8k"}));
  EXPECT_EQ(picture.maps[0].rows, (Strings{"2", "4"}));
  const Figures& corner = table.point({3, 1, 1}).figures;
  EXPECT_EQ(picture.maps[1].values[1][3], corner.exposed_s / corner.wall_s);
}

TEST(SweepPicture, TooManyCurvesAreThinned) {
  const SweepPicture picture = picture_of(
      table_of("seqlen=256:2048:+256 world-size=1:6:+1 partition=contiguous,zigzag,striped,fold"),
      "");
  for (const CurveChart& chart : picture.curves) {
    EXPECT_LE(chart.curves.size(), 8u);
    EXPECT_GE(chart.curves.size(), 4u);
  }
  EXPECT_LE(picture.maps.size(), 3u);
}

TEST(SweepPicture, NamesAloneGiveBars) {
  const SweepPicture picture =
      picture_of(table_of("partition=contiguous,zigzag mask=full,causal"), "");
  EXPECT_TRUE(picture.curves.empty());
  ASSERT_EQ(picture.bars.size(), 1u);
  ASSERT_EQ(picture.bars[0].bars.size(), 4u);
  EXPECT_EQ(picture.bars[0].bars[0].name, "contiguous, full");
}

TEST(SweepPicture, WhatCantBeDoneIsLeftOut) {
  const SweepPicture picture =
      picture_of(table_of("world-size=4,9 seqlen=512,1024 scheme=ulysses"), "");
  ASSERT_EQ(picture.maps.size(), 1u);
  EXPECT_FALSE(std::isnan(picture.maps[0].values[0][0]));
  EXPECT_TRUE(std::isnan(picture.maps[0].values[1][0]));  // 8 heads for 9 ranks
  const auto& curves = picture.curves[1].curves;
  EXPECT_TRUE(std::all_of(curves.begin(), curves.end(),
                          [](const Curve& curve) { return curve.points.size() == 1; }));
}

// Every curve's colour is somewhere in the picture, and the same table is the same picture.
TEST(SweepPicture, IsDrawn) {
  for (const char* sweep : {"seqlen=1024:8192:*2 world-size=2,4 partition=zigzag,striped",
                            "jitter=0,0.1,0.2 kv-buffers=in-step,2,4", "bandwidth=1:64:*2",
                            "mask=full,causal", "seqlen=1024", "scheme=ulysses world-size=9,10"}) {
    const SweepTable table = table_of(sweep);
    const Image image = sweep_image(table, "a machine");
    ASSERT_EQ(image.width, 1600);
    ASSERT_EQ(image.height, 1000);
    EXPECT_EQ(image.pixels, sweep_image(table, "a machine").pixels);
    const std::set<Color> colors(image.pixels.begin(), image.pixels.end());
    const SweepPicture picture = picture_of(table, "a machine");
    for (const CurveChart& chart : picture.curves)
      for (const Curve& curve : chart.curves) {
        const bool has_color = curve.strength == 1 && !curve.points.empty();
        EXPECT_TRUE(!has_color || colors.contains(owner_color(Theme::dark, curve.color, 8)))
            << sweep << ": " << curve.name;
      }
    EXPECT_GT(colors.size(), 20u);
  }
}

// ---
// The picture of a training run's losses: where the smoothed curve lies, what it is measured by, and
// that all of it is drawn.

// Falls from about log 256 to about 2, scattering by a tenth.
LossCurve falling(Index steps) {
  LossCurve curve;
  for (Index i = 0; i < steps; ++i) {
    const double scatter = 0.1 * std::sin(12.9898 * static_cast<double>(i * i % 997));
    curve.losses.push_back(2 + 3.5 * std::exp(-static_cast<double>(i) / 30) + scatter);
  }
  curve.unigram_entropy = 3.3;
  curve.title = "4 layers of width 128";
  return curve;
}

TEST(LossPicture, SmoothsWithoutBeingOff) {
  const LossPicture picture = picture_of(falling(400));
  ASSERT_EQ(picture.raw.size(), 400u);
  ASSERT_EQ(picture.smooth.size(), 400u);
  double raw_error = 0, smooth_error = 0;
  for (std::size_t i = 0; i < 400; ++i) {
    const double truth = 2 + 3.5 * std::exp(-static_cast<double>(i) / 30);
    EXPECT_EQ(picture.smooth[i].step, static_cast<double>(i + 1));
    EXPECT_NEAR(picture.smooth[i].loss, truth, 0.12) << i;
    raw_error += std::pow(picture.raw[i].loss - truth, 2);
    smooth_error += std::pow(picture.smooth[i].loss - truth, 2);
  }
  EXPECT_LT(smooth_error, raw_error / 4);
  // A straight line stays one, up to its ends.
  LossCurve line;
  for (int i = 0; i < 50; ++i) line.losses.push_back(5 - 0.05 * i);
  const LossPicture straight = picture_of(line);
  for (std::size_t i = 0; i < 50; ++i)
    EXPECT_NEAR(straight.smooth[i].loss, straight.raw[i].loss, 1e-9);
}

TEST(LossPicture, IsMeasuredByWhatCanBeHadForNothing) {
  const LossPicture picture = picture_of(falling(200));
  ASSERT_EQ(picture.marks.size(), 2u);
  EXPECT_NEAR(picture.marks[0].loss, std::log(256.0), 1e-12);
  EXPECT_EQ(picture.marks[1].loss, 3.3);
  EXPECT_NE(picture.marks[1].name.find("unigram entropy = 3.300"), std::string::npos);
  EXPECT_GT(picture.y.low, 1);
  EXPECT_GE(picture.y.high, 5.5);
  EXPECT_EQ(picture.x.high, 200);
  for (const LossPoint& point : picture.smooth) {
    EXPECT_GE(picture.y.share(point.loss), 0);
    EXPECT_LE(picture.y.share(point.loss), 1);
  }
  EXPECT_NE(picture.subtitle.find("200 steps"), std::string::npos);
  EXPECT_NE(picture.subtitle.find("below what byte frequencies alone give"), std::string::npos);

  // Of the end of a run only what is near: the losses would be a flat line else.
  LossCurve late = falling(2000);
  late.losses.erase(late.losses.begin(), late.losses.begin() + 1000);
  late.first_step = 1001;
  late.unigram_entropy = 0;
  const LossPicture end = picture_of(late);
  EXPECT_TRUE(end.marks.empty());
  EXPECT_GT(end.y.low, 1.5);
  EXPECT_EQ(end.x.low, 1000);
  EXPECT_EQ(end.x.high, 2000);
}

TEST(LossPicture, TakesAnyLosses) {
  EXPECT_EQ(picture_of({}).subtitle, "no steps");
  LossCurve curve = falling(9000);
  curve.losses[5] = NAN;
  curve.losses[8000] = INFINITY;
  const LossPicture picture = picture_of(curve);
  EXPECT_LE(picture.raw.size(), 4000u);
  EXPECT_NE(picture.subtitle.find("2 losses are no numbers"), std::string::npos);
  EXPECT_EQ(picture.raw.back().step, 9000);
  for (const LossPoint& point : picture.smooth) EXPECT_TRUE(std::isfinite(point.loss));
  LossCurve broken;
  broken.losses = {NAN, NAN};
  EXPECT_EQ(picture_of(broken).subtitle, "no step's loss is a number");
  for (const LossCurve& odd : {LossCurve{}, falling(1), falling(2), broken})
    EXPECT_EQ(loss_image(odd).width, 1600);
}

TEST(LossPicture, IsDrawn) {
  const LossCurve curve = falling(300);
  const Image image = loss_image(curve);
  ASSERT_EQ(image.width, 1600);
  ASSERT_EQ(image.height, 900);
  EXPECT_EQ(image.pixels, loss_image(curve).pixels);
  const std::set<Color> colors(image.pixels.begin(), image.pixels.end());
  const Palette& palette = palette_of(Theme::dark);
  for (const Color color : {palette.accent, palette.playhead, palette.grid, palette.panel})
    EXPECT_TRUE(colors.contains(color)) << std::hex << color;
}

}  // namespace
}  // namespace ringscope::viz

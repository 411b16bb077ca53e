// The picture of a training run's losses: where the smoothed curve lies, what it is measured by, and
// that all of it is drawn.
#include "viz/panels/charts/loss_picture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "viz/window/still.h"

namespace ringscope::viz {
namespace {

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

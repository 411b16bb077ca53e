// The playhead: how far it gets, where it stops, and which steps it finds.
#include "viz/model/session/session.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/viz_model/hand_made.h"

namespace ringscope::viz {
namespace playback_test {

TEST(Playback, TheWholeTimeAxisTakesTenSecondsAndAStepOne) {
  Playback playback;
  playback.toggle(5000);
  playback.advance(2, AxisMode::time, 5000);
  EXPECT_DOUBLE_EQ(playback.position(), 1000);
  playback.seek(0, 8);
  playback.advance(2.5, AxisMode::steps, 8);
  EXPECT_DOUBLE_EQ(playback.position(), 2.5);
}

TEST(Playback, StandsStillUntilItPlays) {
  Playback playback;
  playback.advance(1, AxisMode::time, 100);
  EXPECT_EQ(playback.position(), 0);
  playback.toggle(100);
  EXPECT_TRUE(playback.playing());
  playback.toggle(100);
  playback.advance(1, AxisMode::time, 100);
  EXPECT_EQ(playback.position(), 0);
}

TEST(Playback, StopsAtTheEndAndStartsOverFromThere) {
  Playback playback;
  playback.toggle(4);
  playback.advance(100, AxisMode::steps, 4);
  EXPECT_EQ(playback.position(), 4);
  EXPECT_FALSE(playback.playing());
  playback.toggle(4);
  EXPECT_TRUE(playback.playing());
  EXPECT_EQ(playback.position(), 0);
}

TEST(Playback, NothingToPlayDoesNotPlay) {
  Playback playback;
  playback.toggle(0);
  EXPECT_FALSE(playback.playing());
}

TEST(Playback, SpeedDoublesAndHalvesWithinBounds) {
  Playback playback;
  playback.faster();
  EXPECT_EQ(playback.speed(), 2);
  playback.toggle(10);
  playback.advance(1, AxisMode::steps, 10);
  EXPECT_EQ(playback.position(), 2);
  for (int i = 0; i < 20; ++i) playback.faster();
  EXPECT_EQ(playback.speed(), 64);
  for (int i = 0; i < 20; ++i) playback.slower();
  EXPECT_EQ(playback.speed(), 1.0 / 64);
}

TEST(Playback, SeekingStaysOnTheAxis) {
  Playback playback;
  playback.seek(7, 5);
  EXPECT_EQ(playback.position(), 5);
  playback.seek(-1, 5);
  EXPECT_EQ(playback.position(), 0);
  playback.seek(3, 5);
  playback.seek(std::nan(""), 5);
  EXPECT_EQ(playback.position(), 0);
  playback.seek(1, -2);
  EXPECT_EQ(playback.position(), 0);
}

// Step 1 begins at 40 on rank 0 and at 70 on rank 1.
Axis two_ranks() {
  return Axis(HandMade(2)
                  .compute(0, 0, 0, 40)
                  .compute(0, 1, 40, 100)
                  .compute(1, 0, 0, 60)
                  .wait(1, 1, 70, 80)
                  .compute(1, 1, 80, 100)
                  .trace());
}

TEST(Playback, StepsInTimeAreTheMomentsAtWhichAnyRankBeginsOne) {
  const Axis axis = two_ranks();
  const AxisMode mode = AxisMode::time;
  EXPECT_EQ(next_step(axis, mode, 2, 0), 40);
  EXPECT_EQ(next_step(axis, mode, 2, 40), 70);
  EXPECT_EQ(next_step(axis, mode, 2, 55), 70);
  EXPECT_EQ(next_step(axis, mode, 2, 70), 100);
  EXPECT_EQ(next_step(axis, mode, 2, 100), 100);
  EXPECT_EQ(previous_step(axis, mode, 2, 100), 70);
  EXPECT_EQ(previous_step(axis, mode, 2, 70), 40);
  EXPECT_EQ(previous_step(axis, mode, 2, 41), 40);
  EXPECT_EQ(previous_step(axis, mode, 2, 40), 0);
  EXPECT_EQ(previous_step(axis, mode, 2, 0), 0);
}

TEST(Playback, StepsOnTheStepAxisAreWholeNumbers) {
  const Axis axis = two_ranks();
  const AxisMode mode = AxisMode::steps;
  EXPECT_EQ(next_step(axis, mode, 2, 0), 1);
  EXPECT_EQ(next_step(axis, mode, 2, 0.5), 1);
  EXPECT_EQ(next_step(axis, mode, 2, 1 - 1e-12), 2);  // as good as there
  EXPECT_EQ(next_step(axis, mode, 2, 2), 2);
  EXPECT_EQ(previous_step(axis, mode, 2, 2), 1);
  EXPECT_EQ(previous_step(axis, mode, 2, 1.5), 1);
  EXPECT_EQ(previous_step(axis, mode, 2, 1 + 1e-12), 0);
  EXPECT_EQ(previous_step(axis, mode, 2, 0), 0);
}

}  // namespace playback_test
}  // namespace ringscope::viz

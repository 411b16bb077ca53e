// Events of a window on their way to frames.
#include "viz/window/viewer.h"

#include <gtest/gtest.h>

namespace ringscope::viz {
namespace {

InputEvent button(int number, bool pressed) {
  return {.kind = InputEvent::button, .button_number = number, .pressed = pressed};
}
InputEvent move(float x, float y) { return {.kind = InputEvent::move, .x = x, .y = y}; }
InputEvent scroll(float y) { return {.kind = InputEvent::scroll, .y = y}; }
InputEvent key(char32_t character) {
  return {.kind = InputEvent::key, .key_pressed = {.character = character}};
}

InputQueue queue_of(const std::vector<InputEvent>& events) {
  InputQueue queue;
  for (const InputEvent& event : events) queue.push(event);
  return queue;
}

TEST(InputQueue, AClickWithinAFrameTakesTwo) {
  InputQueue queue = queue_of({move(5, 6), button(0, true), button(0, false)});
  const FrameInput first = queue.take();
  EXPECT_TRUE(first.left);
  EXPECT_EQ(first.mouse_x, 5);
  EXPECT_EQ(first.mouse_y, 6);
  EXPECT_FALSE(queue.empty());
  EXPECT_FALSE(queue.take().left);
  EXPECT_TRUE(queue.empty());
}

TEST(InputQueue, AButtonIsPressedWhereTheMouseWas) {
  InputQueue queue = queue_of({move(1, 1), button(1, true), move(9, 9), button(1, false)});
  const FrameInput pressed = queue.take();
  EXPECT_TRUE(pressed.right);
  EXPECT_EQ(pressed.mouse_x, 1);
  EXPECT_TRUE(queue.take().right);
  const FrameInput released = queue.take();
  EXPECT_FALSE(released.right);
  EXPECT_EQ(released.mouse_x, 9);
  EXPECT_TRUE(queue.empty());
}

TEST(InputQueue, ADragEndsAfterItsLastMovement) {
  InputQueue queue =
      queue_of({move(1, 1), button(0, true), move(5, 1), move(9, 1), button(0, false)});
  EXPECT_TRUE(queue.take().left);
  const FrameInput dragged = queue.take();
  EXPECT_TRUE(dragged.left);
  EXPECT_EQ(dragged.mouse_x, 9);
  const FrameInput released = queue.take();
  EXPECT_FALSE(released.left);
  EXPECT_EQ(released.mouse_x, 9);
  EXPECT_TRUE(queue.empty());
}

TEST(InputQueue, WhatLastsIsKeptAndWhatHappenedIsNot) {
  InputQueue queue =
      queue_of({move(3, 4), scroll(1), scroll(2), key(U'a'), key(U'a'), button(2, true)});
  const FrameInput first = queue.take();
  EXPECT_EQ(first.wheel, 3);
  EXPECT_EQ(first.keys, (std::vector<Key>{{.character = U'a'}, {.character = U'a'}}));
  const FrameInput second = queue.take();
  EXPECT_EQ(second.wheel, 0);
  EXPECT_TRUE(second.keys.empty());
  EXPECT_TRUE(second.middle);
  EXPECT_EQ(second.mouse_x, 3);
}

}  // namespace
}  // namespace ringscope::viz

// Events of a window on their way to frames.
#include "viz/window/window.h"

#include <gtest/gtest.h>

namespace ringscope::viz {
namespace {

InputEvent button(int number, bool pressed) {
  InputEvent event;
  event.kind = InputEvent::button;
  event.button_number = number;
  event.pressed = pressed;
  return event;
}
InputEvent move(float x, float y) {
  InputEvent event;
  event.x = x;
  event.y = y;
  return event;
}
InputEvent scroll(float y) {
  InputEvent event;
  event.kind = InputEvent::scroll;
  event.y = y;
  return event;
}
InputEvent key(char32_t character) {
  InputEvent event;
  event.kind = InputEvent::key;
  event.key_pressed.character = character;
  return event;
}

TEST(InputQueue, AClickWithinAFrameTakesTwo) {
  InputQueue queue;
  for (const InputEvent& event : {move(5, 6), button(0, true), button(0, false)}) queue.push(event);
  const FrameInput first = queue.take();
  EXPECT_TRUE(first.left);
  EXPECT_EQ(first.mouse_x, 5);
  EXPECT_EQ(first.mouse_y, 6);
  EXPECT_FALSE(queue.empty());
  EXPECT_FALSE(queue.take().left);
  EXPECT_TRUE(queue.empty());
}

TEST(InputQueue, AButtonIsPressedWhereTheMouseWas) {
  InputQueue queue;
  for (const InputEvent& event : {move(1, 1), button(1, true), move(9, 9), button(1, false)})
    queue.push(event);
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
  InputQueue queue;
  for (const InputEvent& event :
       {move(1, 1), button(0, true), move(5, 1), move(9, 1), button(0, false)})
    queue.push(event);
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
  InputQueue queue;
  for (const InputEvent& event :
       {move(3, 4), scroll(1), scroll(2), key(U'a'), key(U'a'), button(2, true)})
    queue.push(event);
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

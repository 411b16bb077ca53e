// A window's events on their way to frames. Nothing that happens is lost, however short: a click
// whose press and release come together is given to two frames.
#pragma once

#include <deque>

#include "viz/app/viewer.h"

namespace ringscope::viz {

struct InputEvent {
  enum Kind { move, button, scroll, key, text } kind = move;
  float x = 0, y = 0;  // move: the place; scroll: by how much
  int button_number = 0;
  bool pressed = false;
  Key key_pressed;
  char32_t character = 0;
};

class InputQueue {
 public:
  void push(const InputEvent& event) { events_.push_back(event); }
  bool empty() const { return events_.empty(); }

  // Takes what fits into the next frame: anything up to a movement or a second button after a
  // button, and up to a drag's end after its last movement. Leaves size, time and modifiers to the
  // caller.
  FrameInput take();

 private:
  std::deque<InputEvent> events_;
  FrameInput held_;  // what lasts from frame to frame: the mouse's place, its buttons
};

}  // namespace ringscope::viz

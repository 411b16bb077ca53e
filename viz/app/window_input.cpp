#include "viz/app/window_input.h"

namespace ringscope::viz {

FrameInput InputQueue::take() {
  FrameInput frame = held_;
  const bool drags = frame.left || frame.right || frame.middle;
  bool moved = false, pressed = false;
  for (; !events_.empty(); events_.pop_front()) {
    const InputEvent& event = events_.front();
    const bool is_button = event.kind == InputEvent::button;
    if (pressed && (is_button || event.kind == InputEvent::move)) break;
    if (drags && moved && is_button) break;
    switch (event.kind) {
      case InputEvent::move:
        frame.mouse_x = event.x;
        frame.mouse_y = event.y;
        moved = true;
        break;
      case InputEvent::button:
        (event.button_number == 0   ? frame.left
         : event.button_number == 1 ? frame.right
                                    : frame.middle) = event.pressed;
        pressed = true;
        break;
      case InputEvent::scroll:
        frame.wheel_x += event.x;
        frame.wheel += event.y;
        break;
      case InputEvent::key:
        frame.keys.push_back(event.key_pressed);
        break;
      case InputEvent::text:
        frame.characters += event.character;
        break;
    }
  }
  held_.mouse_x = frame.mouse_x;
  held_.mouse_y = frame.mouse_y;
  held_.left = frame.left;
  held_.right = frame.right;
  held_.middle = frame.middle;
  return frame;
}

}  // namespace ringscope::viz

// A window's events on their way to frames. Nothing that happens is lost, however short: a click
// whose press and release come together is given to two frames.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "viz/window/view.h"
#include "viz/window/viewer.h"

struct GLFWwindow;

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

// ---
// What GLFW tells about a window, into the queue above.

struct WindowListener {
  InputQueue queue;
  float scale = 1;                 // pixels of the screen to one of FrameInput's
  std::function<void()> happened;  // something did, whether or not it is in the queue
  std::function<void(std::vector<std::string>)> dropped;  // these files
};

// `listener` must outlive the window. Ctrl-Q and Ctrl-W ask the window to close.
void listen(GLFWwindow* window, WindowListener& listener);

// ---
// The viewer in a window: GLFW for the window and its input, OpenGL for the pictures. Draws only
// when something happened or moves.

// Opens the window, loads, and returns when it is closed. Throws InputError when there is no
// display, and what loading threw when there was nothing to show but that; RunError when OpenGL
// fails.
void run_window(const ViewOptions& options);

}  // namespace ringscope::viz

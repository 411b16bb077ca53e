// Passes a window's events on to frames. No event is lost, however short: a click whose press and
// release arrive together is spread over two frames.
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
  float x = 0, y = 0;  // move: the position; scroll: the amount
  int button_number = 0;
  bool pressed = false;
  Key key_pressed{};
  char32_t character = 0;
};

class InputQueue {
 public:
  void push(const InputEvent& event) { events_.push_back(event); }
  bool empty() const { return events_.empty(); }

  // Take the events that fit into the next frame. It stops before a movement or a second button
  // event once it has taken a button event, and in a drag before a button event once it has taken a
  // movement. The caller sets size, time and modifiers.
  FrameInput take();

 private:
  std::deque<InputEvent> events_;
  FrameInput held_;  // what lasts from frame to frame: mouse position and buttons
};

// ---
// A listener receives what GLFW reports about a window, and fills the queue above.

struct WindowListener {
  InputQueue queue;
  float scale = 1;                 // screen pixels per pixel of FrameInput
  std::function<void()> happened;  // called for every event, in the queue or not
  std::function<void(std::vector<std::string>)> dropped;  // called with the files
};

// Listen to `window`, which `listener` must outlive. Ctrl-Q and Ctrl-W ask the window to close.
void listen(GLFWwindow* window, WindowListener& listener);

// ---
// The viewer runs in a window: GLFW provides the window and its input, and OpenGL shows the
// pictures. It draws only when something happened or moves.

// Open the window, load, and return when it is closed. Throw InputError if there is no display,
// what loading threw if there is nothing else to show, and RunError if OpenGL fails.
void run_window(const ViewOptions& options);

}  // namespace ringscope::viz

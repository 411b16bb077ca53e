// The window of the desktop, which passes its events on to the viewer's queue: GLFW provides the
// window and its input, and OpenGL shows the pictures. It draws only when something happened or moves.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "viz/window/viewer.h"

struct GLFWwindow;

namespace ringscope::viz {

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

}  // namespace ringscope::viz

// What GLFW tells about a window, into the queue of window_input.h.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "viz/app/window_input.h"

struct GLFWwindow;

namespace ringscope::viz {

struct WindowListener {
  InputQueue queue;
  float scale = 1;                 // pixels of the screen to one of FrameInput's
  std::function<void()> happened;  // something did, whether or not it is in the queue
  std::function<void(std::vector<std::string>)> dropped;  // these files
};

// `listener` must outlive the window. Ctrl-Q and Ctrl-W ask the window to close.
void listen(GLFWwindow* window, WindowListener& listener);

}  // namespace ringscope::viz

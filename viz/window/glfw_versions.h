// What GLFW has since 3.4 and not in 3.3.
#pragma once

#include <GLFW/glfw3.h>

#include <cstdlib>

namespace ringscope::viz {

// Ask for X11 where there is no Wayland display. GLFW looks for one first, and its library says on
// stderr that there is none. Call this before glfwInit().
inline void choose_platform() {
#ifdef GLFW_PLATFORM
  const char* const wayland = std::getenv("WAYLAND_DISPLAY");
  if (wayland == nullptr || *wayland == '\0') glfwInitHint(GLFW_PLATFORM, GLFW_PLATFORM_X11);
#endif
}

}  // namespace ringscope::viz

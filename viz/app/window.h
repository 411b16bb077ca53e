// The viewer in a window: GLFW for the window and its input, OpenGL for the pictures. Draws only
// when something happened or moves.
#pragma once

#include "viz/app/view.h"

namespace ringscope::viz {

// Opens the window, loads, and returns when it is closed. Throws InputError when there is no
// display, and what loading threw when there was nothing to show but that; RunError when OpenGL
// fails.
void run_window(const ViewOptions& options);

}  // namespace ringscope::viz

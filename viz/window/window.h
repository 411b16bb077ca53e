// The window of the desktop, which passes its events on to the viewer's queue: GLFW provides the
// window and its input, and OpenGL shows the pictures. It draws only when something happened or moves.
#pragma once

#include <imgui.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "viz/model/timeline/palette.h"
#include "viz/panels/panels.h"
#include "viz/window/viewer.h"

struct GLFWwindow;

namespace ringscope::viz {

// ---
// Brings frames onto the screen through the current OpenGL 3 context.

class Screen {
 public:
  virtual ~Screen() = default;
  virtual TextureStore& textures() = 0;
  // Call attach() after the ImGui context is made, and detach() before it goes. Throws RunError.
  virtual void attach() {}
  virtual void detach() {}
  virtual void begin_frame() {}
  virtual void draw(const ImDrawData& data, Color background) = 0;
};

// Return the screen. A GPU draws if there is one. If OpenGL itself runs on the processor, the
// rasteriser of software_renderer.h is several times faster because nearly everything is an upright
// rectangle of one colour. OpenGL then only shows its picture.
std::unique_ptr<Screen> make_screen();

// Return `width` x `height` pixels of what has been drawn.
Image read_pixels(int width, int height);

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

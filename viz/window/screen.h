// Brings frames onto the screen through the current OpenGL 3 context.
#pragma once

#include <imgui.h>

#include <memory>

#include "viz/model/timeline/palette.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {

class Screen {
 public:
  virtual ~Screen() = default;
  virtual TextureStore& textures() = 0;
  // Call attach() after the ImGui context is made, and detach() before it goes. Throws RunError.
  virtual void attach() = 0;
  virtual void detach() = 0;
  virtual void begin_frame() = 0;
  virtual void draw(const ImDrawData& data, Color background) = 0;
};

// Return the screen. A GPU draws if there is one. If OpenGL itself runs on the processor, the
// rasteriser of software_renderer.h is several times faster because nearly everything is an upright
// rectangle of one colour. OpenGL then only shows its picture.
std::unique_ptr<Screen> make_screen();

// Return `width` x `height` pixels of what has been drawn.
Image read_pixels(int width, int height);

}  // namespace ringscope::viz

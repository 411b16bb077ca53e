// Frames onto the screen, through whatever OpenGL 3 context is current.
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
  // After the ImGui context that draws here is made, and before it goes. Throws RunError.
  virtual void attach() = 0;
  virtual void detach() = 0;
  virtual void begin_frame() = 0;
  virtual void draw(const ImDrawData& data, Color background) = 0;
};

// The GPU draws where there is one. Where OpenGL is itself computed on the processor, the rasteriser
// of software_renderer.h is several times faster, for it knows that nearly everything is an upright
// rectangle of one colour; OpenGL then only brings its picture to the screen.
std::unique_ptr<Screen> make_screen();

// What has been drawn, `width` x `height` pixels of it.
Image read_pixels(int width, int height);

}  // namespace ringscope::viz

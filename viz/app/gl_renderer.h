// Pictures and draw lists through OpenGL 3, in whatever context is current.
#pragma once

#include <imgui.h>

#include <map>
#include <string>

#include "viz/model/image.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {

class GlTextures : public TextureStore {
 public:
  GlTextures() = default;
  ~GlTextures() override;
  GlTextures(const GlTextures&) = delete;
  GlTextures& operator=(const GlTextures&) = delete;
  ImTextureID update(const std::string& slot, const Image& image) override;

 private:
  struct Texture {
    unsigned name = 0;
    int width = 0, height = 0;
  };
  std::map<std::string, Texture> slots_;
};

// Belongs to the ImGui context that is current when it is made, and goes before that one does.
class GlRenderer {
 public:
  GlRenderer();  // throws RunError
  ~GlRenderer();
  GlRenderer(const GlRenderer&) = delete;
  GlRenderer& operator=(const GlRenderer&) = delete;

  void begin_frame();
  void render(const ImDrawData& data, Color background);
};

// What has been drawn, `width` x `height` pixels of it.
Image read_pixels(int width, int height);

}  // namespace ringscope::viz

// ImGui's draw lists into a picture, on the CPU: textured triangles with clip rectangles and alpha.
// What --screenshot and the golden pictures use: no display, no driver, the same bytes every time.
#pragma once

#include <imgui.h>

#include <map>
#include <memory>
#include <string>

#include "viz/model/timeline/palette.h"
#include "viz/panels/panels.h"

namespace ringscope::viz {

class SoftwareTextures : public TextureStore {
 public:
  ImTextureID update(const std::string& slot, const Image& image) override;

 private:
  std::map<std::string, Image> slots_;  // ids point to the images
};

// Draws `data` onto `image`, whose size is the display's times its scale. Texture ids are
// `const Image*`.
void render(const ImDrawData& data, Image& image);

}  // namespace ringscope::viz

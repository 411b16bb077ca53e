// Renders ImGui's draw lists on the CPU: textured triangles with clip rectangles and alpha. Needs
// no display and no driver and repeats every byte, so screenshots and golden pictures use it.
#pragma once

#include <imgui.h>

#include <string>

#include "viz/data/timeline/palette.h"

namespace ringscope::viz {

// Draw `data` onto `image`, whose size is the display's times its scale. Texture ids are
// `const Image*`.
void render(const ImDrawData& data, Image& image);

// Return the same as an SVG of `width` x `height` pixels, with the pictures' comment (pictures.h) as its
// metadata and `style` as its style sheet. The frame's ImGui context must be current.
std::string svg_of(const ImDrawData& data, int width, int height, const std::string& style = "");

}  // namespace ringscope::viz

// Writes ImGui's draw lists as SVG: outlines in place of triangles, text as text in the font's
// family, textures as embedded PNG. For pictures that a paper takes and a reader enlarges.
#pragma once

#include <imgui.h>

#include <string>

namespace ringscope::viz {

// Return the frame as an SVG of `width` x `height` pixels, with the pictures' comment (png.h) as its
// metadata. Texture ids are `const Image*`, as those of software_renderer.h; the frame's ImGui context
// must be current.
std::string svg_of(const ImDrawData& data, int width, int height);

}  // namespace ringscope::viz

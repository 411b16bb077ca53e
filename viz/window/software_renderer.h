// Renders ImGui's draw lists on the CPU: textured triangles with clip rectangles and alpha. Needs
// no display and no driver and repeats every byte, so screenshots and golden pictures use it.
#pragma once

#include <imgui.h>

#include <string>

#include "viz/data/timeline/palette.h"
#include "viz/panels/drawing.h"

namespace ringscope::viz {

// Draw `data` onto `image`, whose size is the display's times its scale. Texture ids are
// `const Image*`.
void render(const ImDrawData& data, Image& image);

// In print a point of ImGui's is so many points of 1/72 inch, which makes the em of small text 9.2 of them.
inline constexpr double kPrinted = 0.9;

// The part of a frame that a picture shows, by what it is magnified, and in which unit of length.
struct Sheet {
  Box shown;
  double scale = kPrinted;
  const char* unit = "pt";
};

// Return it as an SVG with the pictures' comment (pictures.h) as its metadata and `style` as its style
// sheet, or a whole frame as one of `width` x `height` pixels. The frame's ImGui context must be current.
std::string svg_of(const ImDrawData& data, const Sheet& sheet, const std::string& style);
std::string svg_of(const ImDrawData& data, int width, int height);

// Return it as a page of PDF, magnified by kPrinted, with the comment as its metadata and the typeface in
// it. Throw InputError in builds that have no typeface.
std::string pdf_of(const ImDrawData& data, const Box& shown);

}  // namespace ringscope::viz

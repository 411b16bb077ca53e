// Writes pictures to files.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/base/files.h"
#include "viz/data/timeline/palette.h"

namespace ringscope::viz {

// Give all pictures that this process writes from now on a comment (PNG: a tEXt chunk); "": none.
void set_picture_comment(const std::string& text);
const std::string& picture_comment();
// Return a text as XML has it between tags.
std::string escaped_xml(std::string_view text);

// Return a PNG's bytes, with alpha if any pixel has it, and without the comment.
std::string png_of(const Image& image);

// Write a PNG without alpha, whole or not at all. Throw InputError if the path can't be written to,
// and RunError if the disk is full.
void write_png(const std::string& path, const Image& image);

// Return whether this build can write animations.
bool can_animate();

// An animation of images of one size, which lasts `seconds`, stays with its last image for a while, and
// begins again.
struct Animation {
  int width = 0, height = 0, frames = 0;
  double seconds = 0;
  std::function<Image(int frame)> draw;
};

// Write an animation as WebP without loss, whole or not at all. Throw as write_png, and RunError if it
// can't be encoded. Call it only if can_animate().
void write_animation(const std::string& path, const Animation& animation);

// Write a picture as SVG if `path` ends with .svg, and as PNG otherwise: `draw(svg)` returns the
// image, or sets an SVG that is not null. Throw as write_png.
template <class Draw>
void write_picture(const std::string& path, const Draw& draw) {
  std::string svg;
  if (!path.ends_with(".svg")) return write_png(path, draw(nullptr));
  draw(&svg);
  write_file(path, svg);
}

}  // namespace ringscope::viz

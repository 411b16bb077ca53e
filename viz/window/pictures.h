// Writes pictures to files.
#pragma once

#include <string>

#include "core/base/files.h"
#include "viz/model/timeline/palette.h"

namespace ringscope::viz {

// Give all pictures that this process writes from now on a comment (PNG: a tEXt chunk); "": none.
void set_picture_comment(const std::string& text);
const std::string& picture_comment();

// Return a PNG's bytes, with alpha if any pixel has it, and without the comment.
std::string png_of(const Image& image);

// Write a PNG without alpha, whole or not at all. Throw InputError if the path can't be written to,
// and RunError if the disk is full.
void write_png(const std::string& path, const Image& image);

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

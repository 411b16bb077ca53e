// Writes pictures to files.
#pragma once

#include <string>

#include "viz/model/timeline/palette.h"

namespace ringscope::viz {

// Give all pictures that this process writes from now on a comment (a tEXt chunk); "": none.
void set_png_comment(const std::string& text);

// Write a PNG without alpha, whole or not at all. Throw InputError if the path can't be written to,
// and RunError if the disk is full.
void write_png(const std::string& path, const Image& image);

}  // namespace ringscope::viz

// Pictures into files.
#pragma once

#include <string>

#include "viz/model/timeline/palette.h"

namespace ringscope::viz {

// PNG without alpha, whole or not at all. Throws InputError when the place can't be written to,
// RunError when the disk is full.
void write_png(const std::string& path, const Image& image);

}  // namespace ringscope::viz

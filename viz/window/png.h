// Writes pictures to files.
#pragma once

#include <string>

#include "viz/model/timeline/palette.h"

namespace ringscope::viz {

// Write a PNG without alpha, whole or not at all. Throw InputError if the path can't be written to,
// and RunError if the disk is full.
void write_png(const std::string& path, const Image& image);

}  // namespace ringscope::viz

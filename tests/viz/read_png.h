// Pictures from files.
#pragma once

#include <stb_image.h>

#include <string>

#include "viz/data/timeline/palette.h"

namespace ringscope::viz {

// Empty when there is no PNG at `path`.
inline Image read_png(const std::string& path) {
  int width = 0, height = 0, channels = 0;
  unsigned char* const bytes = stbi_load(path.c_str(), &width, &height, &channels, 4);
  if (bytes == nullptr) return {};
  Image image(width, height);
  for (std::size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = rgb(bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]);
  stbi_image_free(bytes);
  return image;
}

}  // namespace ringscope::viz

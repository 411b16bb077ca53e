// Animations from bytes.
#pragma once

#include <gtest/gtest.h>
#include <stb_image.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "viz/data/timeline/palette.h"

namespace ringscope::viz {

// What stb_image, which knows nothing of ours, reads.
struct ReadGif {
  int width = 0, height = 0, frames = 0;
  std::vector<int> ms;
  std::vector<Color> pixels;

  explicit ReadGif(const std::string& file) {
    int* delays = nullptr;
    int channels = 0;
    unsigned char* const bytes = stbi_load_gif_from_memory(
        reinterpret_cast<const unsigned char*>(file.data()), static_cast<int>(file.size()), &delays,
        &width, &height, &frames, &channels, 4);
    if (bytes == nullptr) {
      ADD_FAILURE() << stbi_failure_reason();
      return;
    }
    ms.assign(delays, delays + frames);
    const auto* const colors = reinterpret_cast<const Color*>(bytes);
    pixels.assign(colors, colors + static_cast<std::size_t>(width) * height * frames);
    stbi_image_free(bytes);
    std::free(delays);
  }
  std::vector<Color> frame(int i) const {
    const std::ptrdiff_t size = std::ptrdiff_t{width} * height;
    return {pixels.begin() + i * size, pixels.begin() + (i + 1) * size};
  }
};

}  // namespace ringscope::viz

// A picture in memory: what the painters make, the textures hold and --screenshot writes.
#pragma once

#include <cstddef>
#include <vector>

#include "viz/model/palette.h"

namespace ringscope::viz {

struct Image {
  int width = 0;
  int height = 0;
  std::vector<Color> pixels;  // [height][width], top row first

  Image() = default;
  Image(int w, int h, Color fill = 0)
      : width(w),
        height(h),
        pixels(static_cast<std::size_t>(w) * static_cast<std::size_t>(h), fill) {}
  Color& at(int x, int y) { return pixels[index(x, y)]; }
  Color at(int x, int y) const { return pixels[index(x, y)]; }
  // Clipped to the image; [x0, x1) x [y0, y1).
  void fill(int x0, int y0, int x1, int y1, Color color);

 private:
  std::size_t index(int x, int y) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
           static_cast<std::size_t>(x);
  }
};

}  // namespace ringscope::viz

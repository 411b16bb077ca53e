#include "viz/model/image.h"

#include <algorithm>

namespace ringscope::viz {

void Image::fill(int x0, int y0, int x1, int y1, Color color) {
  x0 = std::max(x0, 0);
  y0 = std::max(y0, 0);
  x1 = std::min(x1, width);
  y1 = std::min(y1, height);
  if (x0 >= x1) return;
  for (int y = y0; y < y1; ++y) {
    const auto row = pixels.begin() + static_cast<std::ptrdiff_t>(index(0, y));
    std::fill(row + x0, row + x1, color);
  }
}

}  // namespace ringscope::viz

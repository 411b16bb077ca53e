// Colours that people with any colour vision can tell apart, for light and dark backgrounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "viz/model/trace/trace.h"

namespace ringscope::viz {

// Red in the lowest byte, alpha in the highest, as ImGui's ImU32 and RGBA images in memory.
using Color = std::uint32_t;

constexpr Color rgb(int r, int g, int b, int a = 255) {
  return static_cast<Color>(r) | static_cast<Color>(g) << 8 | static_cast<Color>(b) << 16 |
         static_cast<Color>(a) << 24;
}
// `share` of `over` on top of `under`; opaque.
Color mix(Color under, Color over, double share);
Color with_alpha(Color color, double alpha);

enum class Theme : std::uint8_t { dark, light };
enum class ColorBy : std::uint8_t { owner, kind };

// Colours of everything that is drawn, for one theme.
struct Palette {
  Color background, panel, panel_border, text, text_dim, grid, row_even, row_odd;
  Color accent, selection, playhead, critical_path, warning, flow;
  Color empty_tile, full_tile, partial_tile;
  Color kind[kKindCount];
};
const Palette& palette_of(Theme theme);

// The colour of KV owner `owner` of `world_size`: fixed distinct ones for up to 8 owners, a
// perceptual wheel beyond.
Color owner_color(Theme theme, int owner, int world_size);

Color slice_color(const Palette& palette, Theme theme, ColorBy by, const Slice& slice,
                  int world_size);

// ---
// A picture in memory: what the painters make, the textures hold and --screenshot writes.

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

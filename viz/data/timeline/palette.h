// Defines light and dark colours that any colour vision can tell apart, and pictures made of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "viz/data/trace/trace.h"

namespace ringscope::viz {

// A Color has red in the lowest byte and alpha in the highest, like ImGui's ImU32 and RGBA images.
using Color = std::uint32_t;

constexpr Color rgb(int r, int g, int b, int a = 255) {
  return static_cast<Color>(r) | static_cast<Color>(g) << 8 | static_cast<Color>(b) << 16 |
         static_cast<Color>(a) << 24;
}
// Return `share` of `over` on top of `under`; opaque.
Color mix(Color under, Color over, double share);
Color with_alpha(Color color, double alpha);

enum class Theme : std::uint8_t { dark, light };
// Return the theme that a flag names, "light" or "dark".
inline Theme theme_of(std::string_view name) {
  return name == "light" ? Theme::light : Theme::dark;
}
enum class ColorBy : std::uint8_t { owner, kind };

// A Palette holds the colours of everything that is drawn, for one theme.
struct Palette {
  Color background, panel, panel_border, text, text_dim, grid, row_even, row_odd;
  Color accent, selection, playhead, critical_path, warning, flow;
  Color empty_tile, full_tile, partial_tile;
  Color kind[kLaneKinds];

  Color of(Lane k) const { return kind[static_cast<int>(k)]; }
};
const Palette& palette_of(Theme theme);

// Return which of 16 colours an owner gets: its own for up to 16 owners; beyond, so many parts of the
// ring have one each, so that a node's ranks look alike.
inline constexpr int kOwnerClasses = 16;
constexpr int owner_class(int owner, int world_size) {
  if (world_size <= kOwnerClasses) return owner % kOwnerClasses;
  return static_cast<std::int64_t>(owner % world_size) * kOwnerClasses / world_size;
}

// Return the colour of KV owner `owner` of `world_size`: one of 8 fixed distinct colours for up to
// 8 owners, and one of a perceptual wheel beyond. Of more than 16 owners, those of a class share it.
Color owner_color(Theme theme, int owner, int world_size);

// Return the colour of a part of a kernel.
Color kernel_color(Theme theme, KernelPart part);

Color slice_color(Theme theme, ColorBy by, const TraceEvent& slice, int world_size);

// ---
// An Image is a picture in memory: painters make it, textures hold it and --screenshot writes it.

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
  // Fill [x0, x1) x [y0, y1), clipped to the image.
  void fill(int x0, int y0, int x1, int y1, Color color);

 private:
  std::size_t index(int x, int y) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
           static_cast<std::size_t>(x);
  }
};

}  // namespace ringscope::viz

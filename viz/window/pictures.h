// Writes pictures to files.
#pragma once

#include <imgui.h>

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "viz/data/timeline/palette.h"

namespace ringscope::viz {

// Give all pictures that this process writes from now on a comment (PNG: a tEXt chunk); "": none.
void set_picture_comment(const std::string& text);
const std::string& picture_comment();
// Return the comment as XMP (ISO 16684-1), a form of text that PDF and WebP have.
std::string xmp_of_comment();
// Return a text as XML has it between tags.
std::string escaped_xml(std::string_view text);

// Return bytes as a stream of zlib's, in which PNG and PDF have them.
std::string deflated(std::string_view bytes);

// Return a PNG's bytes, with alpha if any pixel has it, and without the comment.
std::string png_of(const Image& image);

// Write a PNG without alpha, whole or not at all. Throw InputError if the path can't be written to,
// and RunError if the disk is full.
void write_png(const std::string& path, const Image& image);

// An animation of images of one size, which lasts `seconds`, stays with its last image for a while, and
// begins again.
struct Animation {
  static constexpr int kLastMs = 1500;  // for which the last image stays

  int width = 0, height = 0, frames = 0;
  double seconds = 0;
  std::function<Image(int frame)> draw;

  // Return when a frame begins.
  int ms_of(int frame) const {
    return static_cast<int>(std::lround(1000 * seconds * frame / frames));
  }
};

// Return why an animation can't be written here with the ending of `path`, and what could, or "".
std::string why_not_animated(std::string_view path);

// Write an animation as GIF, as MP4 by ffmpeg, or as WebP without loss, by the path's ending, whole or not at
// all. Throw as write_png, and RunError if it can't be encoded. Call it only where why_not_animated() is "".
void write_animation(const std::string& path, const Animation& animation);
std::string gif_of(const Animation& animation);

// Return whether a picture at `path` consists of pixels alone.
inline bool is_png(std::string_view path) {
  return !path.ends_with(".svg") && !path.ends_with(".pdf");
}
// Write what `data` draws, which fills `width` x `height` pixels: as SVG or PDF where `path` ends so, and
// as PNG otherwise. With a `ground`, the picture ends where only that colour lies around it, and an SVG has the
// size of print. Throw as write_png and pdf_of() do. The frame's ImGui context must be current.
void write_picture(const std::string& path, const ImDrawData& data, int width, int height,
                   std::optional<Color> ground = std::nullopt);

}  // namespace ringscope::viz

#include "viz/window/pictures.h"

#include <imgui.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "viz/panels/charts/charts.h"
#include "viz/window/fonts.h"
#include "viz/window/software_renderer.h"

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb_image_write.h>
#pragma GCC diagnostic pop

namespace ringscope::viz {
namespace {

constexpr float kScale = 1.25f;  // pixels per point

// Return a picture of width x height pixels. It has more than one pixel per point because pages
// show pictures reduced.
Image still_image(int width, int height, Theme theme, std::string* svg, const ChartPage& page) {
  SoftwareTextures textures;
  const ImGuiSession imgui(textures, kScale);
  const ImVec2 size(width / kScale, height / kScale);
  ImGui::GetIO().DisplaySize = size;
  ImGui::GetIO().DeltaTime = 1;
  const Palette& palette = palette_of(theme);
  apply_style(ImGui::GetStyle(), palette, theme);
  ImGui::NewFrame();
  begin_root_window();
  draw_charts({imgui.fonts(), palette, theme}, page, {0, 0, size.x, size.y});
  ImGui::End();
  ImGui::Render();
  if (svg != nullptr) {
    *svg = svg_of(*ImGui::GetDrawData(), width, height);
    return {};
  }
  Image image(width, height, 0xff000000u);
  render(*ImGui::GetDrawData(), image);
  return image;
}

// ---
// Files.

std::string comment;

std::string big_endian(std::size_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 255);
  return bytes;
}

// Return the chunk with the comment: length, type, keyword and text, checksum (PNG 11.3.3.2).
std::string comment_chunk() {
  if (comment.empty()) return "";
  std::string data = "tEXtComment" + std::string(1, '\0') + comment;
  const unsigned sum =
      stbiw__crc32(reinterpret_cast<unsigned char*>(data.data()), static_cast<int>(data.size()));
  return big_endian(data.size() - 4) + data + big_endian(sum);
}

}  // namespace

Image sweep_image(const SweepTable& table, const std::string& machine, Theme theme,
                  std::string* svg) {
  return still_image(1600, 1000, theme, svg, page_of(table, machine));
}

void set_picture_comment(const std::string& text) { comment = text; }
const std::string& picture_comment() { return comment; }

std::string png_of(const Image& image) {
  const bool opaque = std::all_of(image.pixels.begin(), image.pixels.end(),
                                  [](Color color) { return color >> 24 == 255; });
  std::vector<unsigned char> bytes;
  bytes.reserve(image.pixels.size() * 4);
  for (const Color color : image.pixels)
    for (int shift = 0; shift < (opaque ? 24 : 32); shift += 8)
      bytes.push_back(static_cast<unsigned char>(color >> shift));
  // The pictures have areas of one colour and repeated letters. PNG's filters are made for
  // photographs and hide these from the compressor, so they are off.
  stbi_write_force_png_filter = 0;
  stbi_write_png_compression_level = 5;  // half the default's time, a few per cent larger
  std::string png;
  const auto write = [](void* to, void* piece, int count) {
    static_cast<std::string*>(to)->append(static_cast<const char*>(piece),
                                          static_cast<std::size_t>(count));
  };
  const int channels = opaque ? 3 : 4;
  stbi_write_png_to_func(write, &png, image.width, image.height, channels, bytes.data(),
                         image.width * channels);
  return png;
}

void write_png(const std::string& path, const Image& image) {
  constexpr std::size_t kPngHeader = 8 + 25;  // the signature and IHDR
  write_file(path, png_of(image).insert(kPngHeader, comment_chunk()));
}

}  // namespace ringscope::viz

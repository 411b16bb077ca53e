#include "viz/window/pictures.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/files.h"

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb_image_write.h>
#pragma GCC diagnostic pop

namespace ringscope::viz {
namespace {

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

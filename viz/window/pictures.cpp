#include "viz/window/pictures.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "viz/panels/drawing.h"
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

std::string escaped_xml(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return out;
}

std::string xmp_of_comment() {
  return "<x:xmpmeta xmlns:x=\"adobe:ns:meta/\"><rdf:RDF "
         "xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\"><rdf:Description "
         "xmlns:dc=\"http://purl.org/dc/elements/1.1/\"><dc:source>" +
         escaped_xml(comment) + "</dc:source></rdf:Description></rdf:RDF></x:xmpmeta>";
}

std::string deflated(std::string_view bytes) {
  constexpr int kQuality = 8;
  const std::string text(bytes);  // stb asks for bytes that it may write to, and doesn't
  int size = 0;
  unsigned char* const packed =
      stbi_zlib_compress(reinterpret_cast<unsigned char*>(const_cast<char*>(text.data())),
                         static_cast<int>(text.size()), &size, kQuality);
  const std::string result(reinterpret_cast<const char*>(packed), static_cast<std::size_t>(size));
  STBIW_FREE(packed);
  return result;
}

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

namespace {

// Pixels [x0, x1) x [y0, y1).
struct Part {
  int x0 = 0, y0 = 0, x1 = 0, y1 = 0;
};

// Return the part of an image that holds all pixels of another colour than `ground`, with `margin` around
// it; all of an image that has none.
Part within_ground(const Image& image, Color ground, int margin) {
  Part part{image.width, image.height, 0, 0};
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x)
      if (image.at(x, y) != ground)
        part = {std::min(part.x0, x), std::min(part.y0, y), std::max(part.x1, x + 1),
                std::max(part.y1, y + 1)};
  if (part.x1 == 0) return {0, 0, image.width, image.height};
  return {std::max(part.x0 - margin, 0), std::max(part.y0 - margin, 0),
          std::min(part.x1 + margin, image.width), std::min(part.y1 + margin, image.height)};
}

Image part_of(const Image& image, const Part& part) {
  Image result(part.x1 - part.x0, part.y1 - part.y0);
  for (int y = 0; y < result.height; ++y)
    std::copy_n(&image.pixels[static_cast<std::size_t>(part.y0 + y) * image.width + part.x0],
                result.width, &result.at(0, y));
  return result;
}

}  // namespace

void write_picture(const std::string& path, const ImDrawData& data, int width, int height,
                   std::optional<Color> ground) {
  constexpr float kMargin = 4;  // points
  const float scale = data.FramebufferScale.x;
  Image image(width, height, 0xff000000u);
  render(data, image);
  const Part part = ground ? within_ground(image, *ground, std::lround(kMargin * scale))
                           : Part{0, 0, width, height};
  const Box shown{part.x0 / scale, part.y0 / scale, part.x1 / scale, part.y1 / scale};
  if (path.ends_with(".svg"))
    write_file(path, svg_of(data, ground ? Sheet{shown} : Sheet{shown, scale, ""}, font_faces()));
  else if (path.ends_with(".pdf"))
    write_file(path, pdf_of(data, shown));
  else
    write_png(path, part_of(image, part));
}

}  // namespace ringscope::viz

#include "viz/window/png.h"

#include <string_view>
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

void write_png(const std::string& path, const Image& image) {
  std::vector<unsigned char> rgb;
  rgb.reserve(image.pixels.size() * 3);
  for (const Color color : image.pixels)
    for (const int shift : {0, 8, 16}) rgb.push_back(static_cast<unsigned char>(color >> shift));
  // The pictures have areas of one colour and repeated letters. PNG's filters are made for
  // photographs and hide these from the compressor, so they are off.
  stbi_write_force_png_filter = 0;
  stbi_write_png_compression_level = 5;  // half the default's time, a few per cent larger
  AtomicFile file(path);
  const auto write = [](void* to, void* bytes, int count) {
    static_cast<AtomicFile*>(to)->write(
        std::string_view(static_cast<const char*>(bytes), static_cast<std::size_t>(count)));
  };
  stbi_write_png_to_func(write, &file, image.width, image.height, 3, rgb.data(), image.width * 3);
  file.commit();
}

}  // namespace ringscope::viz

#include "viz/window/fonts.h"

#include <algorithm>

// The compiler's assembler copies in the files that CMake found.
#ifdef RINGSCOPE_FONT
#define RINGSCOPE_INCLUDE_FILE(symbol, path)                                          \
  asm(".pushsection .rodata\n.balign 8\n" #symbol ":\n.incbin \"" path "\"\n" #symbol \
      "_end:\n"                                                                       \
      ".byte 0\n.popsection\n");                                                      \
  extern "C" const unsigned char symbol[], symbol##_end[]
RINGSCOPE_INCLUDE_FILE(ringscope_font_text, RINGSCOPE_FONT);
RINGSCOPE_INCLUDE_FILE(ringscope_font_title, RINGSCOPE_FONT_TITLE);
#endif

namespace ringscope::viz {

Image atlas_image(ImFontAtlas& atlas) {
  unsigned char* pixels = nullptr;
  int width = 0, height = 0;
  atlas.GetTexDataAsRGBA32(&pixels, &width, &height);
  Image image(width, height);
  std::copy_n(reinterpret_cast<const Color*>(pixels), image.pixels.size(), image.pixels.begin());
  return image;
}

#ifdef RINGSCOPE_FONT

namespace {

// The ranges cover Latin and Greek, dashes, quotes, bullet and ellipsis, mathematics, and small
// raised and lowered digits and letters.
constexpr ImWchar kGlyphs[] = {0x0020, 0x007e, 0x00a0, 0x00ff, 0x0393, 0x03c9, 0x2012,
                               0x2027, 0x2030, 0x2030, 0x2206, 0x2212, 0x221a, 0x221e,
                               0x2248, 0x2265, 0x1d40, 0x1d40, 0x2070, 0x209c, 0};

ImFont* add(ImFontAtlas& atlas, const unsigned char* begin, const unsigned char* end, float size,
            float scale) {
  ImFontConfig config;
  config.FontDataOwnedByAtlas = false;
  config.OversampleH = 2;
  config.OversampleV = 1;
  config.GlyphRanges = kGlyphs;
  return atlas.AddFontFromMemoryTTF(const_cast<unsigned char*>(begin),
                                    static_cast<int>(end - begin), size * scale, &config);
}

}  // namespace

Fonts add_fonts(ImFontAtlas& atlas, float scale) {
  const auto text = [&](float size) {
    return add(atlas, ringscope_font_text, ringscope_font_text_end, size, scale);
  };
  Fonts fonts;
  fonts.text = text(15);
  fonts.small = text(12);
  fonts.title = add(atlas, ringscope_font_title, ringscope_font_title_end, 20, scale);
  fonts.mono = text(14);  // all its digits have the same width
  fonts.strong = add(atlas, ringscope_font_title, ringscope_font_title_end, 15, scale);
  return fonts;
}

std::string_view font_name() { return RINGSCOPE_FONT_NAME; }

#else

Fonts add_fonts(ImFontAtlas& atlas, float scale) {
  const auto add = [&](float size) {
    ImFontConfig config;
    config.SizePixels = size * scale;
    return atlas.AddFontDefault(&config);
  };
  return {add(13), add(12), add(18), add(13), add(13)};
}

std::string_view font_name() { return "ImGui's own"; }

#endif

}  // namespace ringscope::viz

// Pictures in formats of more than pixels: what a reader of PDF and GIF finds in them.
#include "viz/window/pictures.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <regex>
#include <set>

#include "tests/viz/read_gif.h"
#include "viz/panels/drawing.h"
#include "viz/window/fonts.h"
#include "viz/window/software_renderer.h"

namespace ringscope::viz {
namespace {

// The objects of a PDF by number, found by its table, with their streams unpacked.
struct ReadPdf {
  std::map<int, std::string> objects;  // what stands before a stream, or all
  std::map<int, std::string> streams;

  explicit ReadPdf(const std::string& file) {
    EXPECT_TRUE(file.starts_with("%PDF-1.7\n"));
    std::smatch end;
    const std::string last = file.substr(file.size() - 60);
    if (!std::regex_search(last, end, std::regex("startxref\n(\\d+)\n%%EOF\n$"))) {
      ADD_FAILURE() << last;
      return;
    }
    std::size_t at = std::stoul(end[1]);
    EXPECT_EQ(file.substr(at, 7), "xref\n0 ");
    const int count = std::stoi(file.substr(at + 7));
    at = file.find('\n', at + 7) + 1 +
         20;  // entries have 20 bytes, and the first one is of no object
    for (int number = 1; number < count; ++number, at += 20) {
      EXPECT_EQ(file.substr(at + 10, 10), " 00000 n \n");
      const std::size_t begin = std::stoul(file.substr(at, 10));
      const std::string head = fmt::format("{} 0 obj\n", number);
      EXPECT_EQ(file.substr(begin, head.size()), head);
      const std::size_t stream = file.find("stream\n", begin), object = file.find("endobj", begin);
      if (object < stream) {
        objects[number] = file.substr(begin, object - begin);
        continue;
      }
      objects[number] = file.substr(begin, stream - begin);
      const std::size_t size = std::stoul(value(number, "/Length "));
      EXPECT_EQ(file.substr(stream + 7 + size, 17), "\nendstream\nendobj");
      streams[number] = unpacked(number, file.substr(stream + 7, size));
    }
  }

  // What follows `key` in an object, to the end of a number.
  std::string value(int number, const std::string& key) const {
    std::smatch found;
    const std::string& object = objects.at(number);
    return std::regex_search(object, found, std::regex(key + "(\\d+)")) ? found[1].str() : "-1";
  }
  int referred(int number, const std::string& key) const { return std::stoi(value(number, key)); }
  // The only object that holds `text`.
  int with(const std::string& text) const {
    int found = 0;
    for (const auto& [number, object] : objects)
      if (object.find(text) != object.npos) {
        EXPECT_EQ(found, 0) << text;
        found = number;
      }
    return found;
  }

 private:
  std::string unpacked(int number, const std::string& bytes) const {
    if (objects.at(number).find("/FlateDecode") == std::string::npos) return bytes;
    int size = 0;
    char* const text = stbi_zlib_decode_malloc(bytes.data(), static_cast<int>(bytes.size()), &size);
    EXPECT_NE(text, nullptr);
    const std::string result(text, static_cast<std::size_t>(size));
    std::free(text);
    return result;
  }
};

// The frame that these tests draw: a shape, a text, a translucent shape and a picture.
const ImDrawData& drawn(const ImGuiSession& imgui, const Image& picture) {
  ImGui::GetIO().DisplaySize = {200, 100};
  ImGui::GetIO().DeltaTime = 1;
  ImGui::NewFrame();
  ImDrawList& list = *ImGui::GetBackgroundDrawList();
  list.AddRectFilled({10, 20}, {30, 40}, 0xff0000ffu);
  list.AddText(imgui.fonts().small, font_height(imgui.fonts().small), {50, 50}, 0xff000000u,
               "8 \u00b5s");
  list.AddRectFilled({10, 20}, {30, 40}, 0x80ff0000u);
  list.AddImage(texture_id_of(picture), {100, 10}, {110, 30});
  ImGui::Render();
  return *ImGui::GetDrawData();
}

TEST(Pdf, HoldsWhatIsDrawnAsItIs) {
  TextureStore textures;
  const ImGuiSession imgui(textures, 1);
  Image picture(2, 1, 0xff112233u);
  picture.at(1, 0) = 0x00445566u;
  const ImDrawData& data = drawn(imgui, picture);
  if (font_file(false).empty()) {
    EXPECT_THROW(pdf_of(data, {0, 0, 200, 100}), InputError);
    return;
  }
  set_picture_comment("command: ringscope view 'a&b'");
  const ReadPdf pdf(pdf_of(data, {10, 0, 110, 100}));
  set_picture_comment("");

  const int page = pdf.with("/Type/Page/");
  EXPECT_NE(pdf.objects.at(page).find("/MediaBox[0 0 90 90]"), std::string::npos);
  const std::string content = pdf.streams.at(pdf.referred(page, "/Contents "));
  // Points of 0.9/72 inch, whose origin is the part's top left corner.
  EXPECT_TRUE(content.starts_with("0.9 0 0 -0.9 -9 90 cm q\n")) << content;
  EXPECT_NE(content.find("1.000 0.000 0.000 rg\n10 20 m 30 20 l 30 40 l 10 40 l h f\n"),
            std::string::npos)
      << content;
  EXPECT_NE(content.find("/A128 gs 0.000 0.000 1.000 rg\n"), std::string::npos);
  EXPECT_NE(pdf.objects.at(page).find("/A128<</ca 0.5>>"), std::string::npos);
  EXPECT_NE(content.find("q 10 0 0 -20 100 30 cm /P0 Do Q\n"), std::string::npos);
  const int image = pdf.with("/ColorSpace/DeviceRGB");
  EXPECT_EQ(pdf.streams.at(image), "\x33\x22\x11\x66\x55\x44");
  EXPECT_EQ(pdf.streams.at(pdf.referred(image, "/SMask ")), std::string("\xff\0", 2));

  // The text is there by glyphs of an embedded font, which says what characters they are.
  std::smatch text;
  ASSERT_TRUE(std::regex_search(content, text, std::regex("/F0 ([0-9.]+) Tf .* <([0-9a-f]+)> Tj")));
  EXPECT_GE(0.9 * std::stod(text[1]), 9) << "small text in print";
  const int font = pdf.with("/Subtype/Type0");
  EXPECT_NE(pdf.objects.at(page).find(fmt::format("/F0 {} 0 R", font)), std::string::npos);
  const std::string characters = pdf.streams.at(pdf.referred(font, "/ToUnicode "));
  const std::string glyphs = text[2];
  std::string found;
  for (std::size_t at = 0; at < glyphs.size(); at += 4) {
    const std::size_t line = characters.find("<" + glyphs.substr(at, 4) + "> <");
    ASSERT_NE(line, std::string::npos);
    found += characters.substr(line + 8, 4) + " ";
  }
  EXPECT_EQ(found, "0038 0020 00b5 0073 ");
  const int descriptor =
      pdf.referred(pdf.referred(font, "/DescendantFonts\\["), "/FontDescriptor ");
  EXPECT_TRUE(pdf.streams.at(pdf.referred(descriptor, "/FontFile2 ")) == font_file(false));
  EXPECT_NE(pdf.streams.at(pdf.with("/Type/Metadata")).find("ringscope view 'a&amp;b'"),
            std::string::npos);
}

// ---
// Frames of as many colours as it may have are exact, with noise that fills the table of codes several
// times. One that changes nothing prolongs the one before.
TEST(Gif, FewColorsAreExact) {
  std::mt19937 random(20261129);
  std::vector<Image> images(4, Image(211, 97, rgb(10, 20, 30)));
  for (Color& pixel : images[1].pixels) pixel = rgb(random() % 256, 7, 200);
  images[2] = images[3] = images[1];
  for (Image* const image : {&images[2], &images[3]}) image->fill(50, 30, 52, 31, rgb(1, 2, 3));
  const ReadGif gif(gif_of({211, 97, 4, 0.8, [&](int frame) { return images[frame]; }}));
  ASSERT_EQ(gif.frames, 3);
  EXPECT_EQ(gif.width, 211);
  EXPECT_EQ(gif.height, 97);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(gif.frame(i) == images[i].pixels) << i;
  EXPECT_EQ(gif.ms, (std::vector{200, 200, 400 + 1500}));
}

// At every length, so that codes end at each place of their table.
TEST(Gif, AnyLengthIsExact) {
  std::mt19937 random(1);
  for (int width = 1; width < 700; ++width) {
    Image image(width, 1);
    for (Color& pixel : image.pixels) pixel = rgb(0, random() % 256, 0);
    const ReadGif gif(gif_of({width, 1, 1, 1, [&](int) { return image; }}));
    ASSERT_TRUE(gif.pixels == image.pixels) << width;
  }
}

// Of more colours, what covers an area stays as it is, and the rest nearly so.
TEST(Gif, ManyColorsAreNearlyThose) {
  Image image(600, 30, rgb(23, 28, 37));
  image.fill(0, 0, 600, 10, rgb(22, 27, 36));  // as the ground, but for one step
  for (int y = 20; y < 30; ++y)
    for (int x = 0; x < 600; ++x)
      image.at(x, y) = rgb(x * 255 / 599, x * 201 / 599, 255 - x * 77 / 599);
  const std::set<Color> colors(image.pixels.begin(), image.pixels.end());
  ASSERT_GT(colors.size(), 300u);
  const ReadGif gif(gif_of({600, 30, 1, 1, [&](int) { return image; }}));
  ASSERT_EQ(gif.frames, 1);
  int most = 0;
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    if (i < 600 * 20) {
      ASSERT_EQ(gif.pixels[i], image.pixels[i]);
    }
    for (int shift = 0; shift < 24; shift += 8)
      most = std::max(most, std::abs(static_cast<int>(gif.pixels[i] >> shift & 255) -
                                     static_cast<int>(image.pixels[i] >> shift & 255)));
  }
  EXPECT_LE(most, 8);
}

}  // namespace
}  // namespace ringscope::viz

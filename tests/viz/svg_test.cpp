// Pictures as SVG: what is drawn is there as outlines and as text, and says where it comes from.
#include <gtest/gtest.h>

#include <regex>

#include "viz/panels/drawing.h"
#include "viz/window/fonts.h"
#include "viz/window/pictures.h"
#include "viz/window/software_renderer.h"

namespace ringscope::viz {
namespace {

// Expect what XML asks of text without entities of its own: tags that nest, attributes in quotes.
void expect_well_formed(const std::string& xml) {
  static const std::regex tag(
      "<(/?)([A-Za-z]+)((?: [A-Za-z0-9:-]+=\"[^\"<]*\")*)(/?)>|[^<>&]+|&(?:amp|lt|gt);");
  std::vector<std::string> open;
  std::size_t at = 0;
  for (std::sregex_iterator it(xml.begin(), xml.end(), tag), end; it != end; ++it) {
    ASSERT_EQ(static_cast<std::size_t>(it->position()), at) << xml.substr(at, 200);
    at += static_cast<std::size_t>(it->length());
    if (!(*it)[2].matched) continue;
    if ((*it)[1].length() > 0) {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), (*it)[2]);
      open.pop_back();
    } else if ((*it)[4].length() == 0) {
      open.push_back((*it)[2]);
    }
  }
  EXPECT_EQ(at, xml.size());
  EXPECT_TRUE(open.empty());
}

// The SVG of what `draw` adds to a window's draw list.
template <class Draw>
std::string svg_with(const Draw& draw) {
  TextureStore textures;
  const ImGuiSession imgui(textures, 1);
  ImGui::GetIO().DisplaySize = {200, 100};
  ImGui::GetIO().DeltaTime = 1;
  ImGui::NewFrame();
  draw(*ImGui::GetBackgroundDrawList(), imgui.fonts());
  ImGui::Render();
  return svg_of(*ImGui::GetDrawData(), 200, 100);
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; ++at) ++count;
  return count;
}

TEST(Svg, ShapesAreTheOutlinesThatWereDrawn) {
  const std::string svg = svg_with([](ImDrawList& list, const Fonts&) {
    list.AddRectFilled({10, 20}, {30, 40}, 0xff0000ffu);
    list.AddLine({50.5f, 10.5f}, {90.5f, 10.5f}, 0xff00ff00u, 1);
    list.AddConvexPolyFilled(std::array<ImVec2, 3>{{{100, 10}, {140, 10}, {120, 50}}}.data(), 3,
                             0x80ff0000u);
    list.AddConvexPolyFilled(std::array<ImVec2, 3>{{{100, 20}, {140, 20}, {120, 60}}}.data(), 3,
                             0x80ff0000u);
  });
  expect_well_formed(svg);
  EXPECT_NE(svg.find("<path fill=\"#ff0000\" d=\"M10 20L30 20L30 40L10 40Z\"/>"), svg.npos) << svg;
  // A line of one pixel from 10 to 11, without its fringe.
  EXPECT_NE(svg.find("<path fill=\"#00ff00\" d=\"M"), svg.npos);
  for (const char* corner : {"91 10.5", "51 10.5", "51 11.5", "91 11.5"})
    EXPECT_NE(svg.find(corner), svg.npos) << corner << svg;
  // Translucent shapes that overlap are painted apart; each is its three corners.
  EXPECT_EQ(count_of(svg, "fill=\"#0000ff\" fill-opacity=\"0.5\""), 2u);
  EXPECT_NE(svg.find("100 10L140 10L120 50Z"), svg.npos) << svg;
}

TEST(Svg, TextIsText) {
  const std::string svg = svg_with([](ImDrawList& list, const Fonts& fonts) {
    list.AddText(fonts.text, font_height(fonts.text), {10, 10}, 0xffffffffu,
                 "a <b> & two  \u00b5s");
    list.AddText(fonts.title, font_height(fonts.title), {10, 40}, 0xffffffffu, "Title");
  });
  expect_well_formed(svg);
  EXPECT_NE(svg.find(">a &lt;b&gt; &amp; two  \u00b5s</text>"), svg.npos) << svg;
  EXPECT_NE(svg.find("font-weight=\"500\""), svg.npos);
  EXPECT_NE(svg.find(">Title</text>"), svg.npos);
}

// Lines break at spaces, and no number is torn apart.
TEST(Svg, ANumberIsNotBroken) {
  TextureStore textures;
  const ImGuiSession imgui(textures, 1);
  ImGui::GetIO().DisplaySize = {200, 400};
  ImGui::GetIO().DeltaTime = 1;
  for (float width = 30; width < 120; ++width) {
    ImGui::NewFrame();
    begin_root_window();
    draw_wrapped(imgui.fonts().text, {10, 10}, width, 0xffffffffu, "rank 3 has 9.00 times more");
    ImGui::End();
    ImGui::Render();
    const std::string svg = svg_of(*ImGui::GetDrawData(), 200, 400);
    EXPECT_TRUE(std::regex_search(svg, std::regex("[> ]9[.]00[ <]"))) << width;
  }
}

TEST(Svg, SaysWhereItComesFrom) {
  set_picture_comment("version: 1; command: ringscope view --select 'a&b'");
  const std::string svg = svg_with([](ImDrawList&, const Fonts&) {});
  set_picture_comment("");
  expect_well_formed(svg);
  EXPECT_NE(svg.find("<metadata>version: 1; command: ringscope view --select 'a&amp;b'</metadata>"),
            svg.npos);
}

}  // namespace
}  // namespace ringscope::viz

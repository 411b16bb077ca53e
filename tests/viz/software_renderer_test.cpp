// The rasteriser against answers known beforehand and against brute force with exact integers.
#include "viz/window/software_renderer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/viz/read_png.h"
#include "viz/panels/imgui_versions.h"
#include "viz/window/pictures.h"

namespace ringscope::viz {
namespace {

constexpr Color kWhite = rgb(255, 255, 255), kBlack = rgb(0, 0, 0);
constexpr Color kHalf = rgb(255, 255, 255, 128);

// Draw lists put together by hand, with one texture.
class Drawing {
 public:
  explicit Drawing(int width, int height, Image texture = Image(1, 1, kWhite))
      : image(width, height, kBlack), texture_(std::move(texture)), list_(nullptr) {}

  // Vertices of triangles, three each; uv in [0, 1].
  void add(const std::vector<ImDrawVert>& vertices, ImVec4 clip = {0, 0, 1e4f, 1e4f},
           unsigned skipped = 0) {
    std::vector<ImDrawIdx> indices(vertices.size() - skipped);
    std::iota(indices.begin(), indices.end(), ImDrawIdx{0});
    add(vertices, indices, clip, skipped);
  }
  // A rectangle, as ImGui makes them: four vertices, six indices.
  void add_rectangle(ImVec2 a, ImVec2 c, Color color, ImVec4 clip = {0, 0, 1e4f, 1e4f},
                     ImVec2 uv_a = {0.5f, 0.5f}, ImVec2 uv_c = {0.5f, 0.5f}) {
    add({{a, uv_a, color},
         {{c.x, a.y}, {uv_c.x, uv_a.y}, color},
         {c, uv_c, color},
         {{a.x, c.y}, {uv_a.x, uv_c.y}, color}},
        {0, 1, 2, 0, 2, 3}, clip, 0);
  }
  const Image& drawn() {
    ImDrawData data;
    data.Valid = true;
    ImDrawList* list = &list_;
    set_list(data, list);
    data.DisplaySize = {static_cast<float>(image.width) / scale,
                        static_cast<float>(image.height) / scale};
    data.FramebufferScale = {scale, scale};
    render(data, image);
    return image;
  }

  Image image;
  float scale = 1;

 private:
  void add(const std::vector<ImDrawVert>& vertices, const std::vector<ImDrawIdx>& indices,
           ImVec4 clip, unsigned skipped) {
    ImDrawCmd command;
    command.ClipRect = clip;
    set_texture(command, texture_id_of(texture_));
    command.VtxOffset = static_cast<unsigned>(list_.VtxBuffer.Size) + skipped;
    command.IdxOffset = static_cast<unsigned>(list_.IdxBuffer.Size);
    command.ElemCount = static_cast<unsigned>(indices.size());
    for (const ImDrawVert& vertex : vertices) list_.VtxBuffer.push_back(vertex);
    for (const ImDrawIdx index : indices) list_.IdxBuffer.push_back(index);
    list_.CmdBuffer.push_back(command);
  }

  Image texture_;
  ImDrawList list_;
};

// Expect white pixels where white(x, y), and black ones elsewhere.
template <class White>
void expect_white(const Image& image, White&& white) {
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x)
      EXPECT_EQ(image.at(x, y), white(x, y) ? kWhite : kBlack) << x << " " << y;
}

ImDrawVert vertex(float x, float y, Color color = kHalf) { return {{x, y}, {0.5f, 0.5f}, color}; }

TEST(SoftwareRenderer, RectanglesCoverThePixelsWhoseCentresTheyHold) {
  Drawing drawing(6, 5);
  drawing.add_rectangle({1, 1}, {4, 3}, kWhite);
  expect_white(drawing.drawn(), [](int x, int y) { return x >= 1 && x < 4 && y >= 1 && y < 3; });
  Drawing between(4, 1);
  between.add_rectangle({0.6f, 0}, {2.5f, 1}, kWhite);
  EXPECT_EQ(between.drawn().pixels, (std::vector<Color>{kBlack, kWhite, kBlack, kBlack}));
}

TEST(SoftwareRenderer, ScreensWithMoreDotsGetMorePixels) {
  Drawing drawing(8, 8);
  drawing.scale = 2;
  drawing.add_rectangle({1, 1}, {3, 4}, kWhite, {0, 0, 2.5f, 3});
  expect_white(drawing.drawn(), [](int x, int y) { return x >= 2 && x < 5 && y >= 2 && y < 6; });
}

TEST(SoftwareRenderer, AlphaMixes) {
  Drawing drawing(1, 1);
  drawing.add_rectangle({0, 0}, {1, 1}, rgb(200, 100, 0, 51));  // a fifth
  drawing.add_rectangle({0, 0}, {1, 1}, rgb(9, 9, 9, 0));
  EXPECT_EQ(drawing.drawn().at(0, 0), rgb(40, 20, 0));
}

TEST(SoftwareRenderer, NothingIsDrawnOutsideTheClip) {
  Drawing drawing(8, 8);
  drawing.add_rectangle({-5, -5}, {20, 20}, kWhite, {2, 3, 5, 6});
  drawing.add({vertex(-50, -50, kWhite), vertex(50, -50, kWhite), vertex(0, 50, kWhite)},
              {6, 1, 7, 100});
  expect_white(drawing.drawn(), [](int x, int y) {
    return (x >= 2 && x < 5 && y >= 3 && y < 6) || (x == 6 && y >= 1);
  });
}

TEST(SoftwareRenderer, DrawsFromTheVertexThatTheCommandNames) {
  Drawing drawing(4, 4);
  drawing.add(
      {vertex(0, 0, rgb(255, 0, 0)), vertex(9, 0, rgb(255, 0, 0)), vertex(0, 9, rgb(255, 0, 0)),
       vertex(0, 0, kWhite), vertex(9, 0, kWhite), vertex(0, 9, kWhite)},
      {0, 0, 4, 4}, 3);
  EXPECT_EQ(drawing.drawn().at(1, 1), kWhite);
}

// Triangles that meet in a point anywhere inside a square cover each of its pixels exactly once.
TEST(SoftwareRenderer, SharedEdgesAreDrawnOnce) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> inside(2.5f, 27.5f);
  const std::array<ImVec2, 4> corners = {{{2, 2}, {28, 2}, {28, 28}, {2, 28}}};
  for (int round = 0; round < 50; ++round) {
    Drawing drawing(30, 30);
    const bool on_centre = round % 5 == 0;  // edges then run through pixels' centres
    const ImVec2 hub(on_centre ? 15.5f : inside(random), on_centre ? 15.5f : inside(random));
    for (std::size_t i = 0; i < 4; ++i) {
      const ImVec2 a = corners[i], b = corners[(i + 1) % 4];
      const bool turned = round % 2 == 0;
      drawing.add({vertex(hub.x, hub.y), vertex(turned ? b.x : a.x, turned ? b.y : a.y),
                   vertex(turned ? a.x : b.x, turned ? a.y : b.y)});
    }
    const Image& image = drawing.drawn();
    for (int y = 0; y < 30; ++y)
      for (int x = 0; x < 30; ++x)
        ASSERT_EQ(image.at(x, y),
                  x >= 2 && x < 28 && y >= 2 && y < 28 ? rgb(128, 128, 128) : kBlack)
            << x << " " << y << " round " << round;
  }
}

// Pixels whose centre is strictly inside are drawn, those strictly outside are not.
TEST(SoftwareRenderer, CoversWhatBruteForceSays) {
  std::mt19937 random(2);
  std::uniform_int_distribution<int> anywhere(-20 * 256, 60 * 256);
  for (int round = 0; round < 200; ++round) {
    std::array<std::array<std::int64_t, 2>, 3> p{};
    for (auto& point : p) point = {anywhere(random), anywhere(random)};
    Drawing drawing(40, 40);
    std::vector<ImDrawVert> vertices;
    for (const auto& [x, y] : p)
      vertices.push_back(vertex(static_cast<float>(x) / 256, static_cast<float>(y) / 256, kWhite));
    drawing.add(vertices);
    const Image& image = drawing.drawn();
    for (int y = 0; y < 40; ++y)
      for (int x = 0; x < 40; ++x) {
        int positive = 0, negative = 0;
        for (std::size_t i = 0; i < 3; ++i) {
          const auto& a = p[i];
          const auto& b = p[(i + 1) % 3];
          const std::int64_t side =
              (b[0] - a[0]) * (y * 256 + 128 - a[1]) - (b[1] - a[1]) * (x * 256 + 128 - a[0]);
          positive += side > 0;
          negative += side < 0;
        }
        if (positive == 3 || negative == 3) {
          ASSERT_EQ(image.at(x, y), kWhite) << x << " " << y << " round " << round;
        } else if (positive > 0 && negative > 0) {
          ASSERT_EQ(image.at(x, y), kBlack) << x << " " << y << " round " << round;
        }
      }
  }
}

TEST(SoftwareRenderer, CopiesATextureOfTheSameSizeExactly) {
  Image texture(7, 5);
  for (std::size_t i = 0; i < texture.pixels.size(); ++i)
    texture.pixels[i] = rgb(static_cast<int>(i * 7), static_cast<int>(255 - i), 3);
  Drawing drawing(9, 8, texture);
  drawing.add_rectangle({1, 2}, {8, 7}, kWhite, {0, 0, 100, 100}, {0, 0}, {1, 1});
  const Image& image = drawing.drawn();
  for (int y = 0; y < 5; ++y)
    for (int x = 0; x < 7; ++x) EXPECT_EQ(image.at(x + 1, y + 2), texture.at(x, y)) << x << y;
}

TEST(SoftwareRenderer, FiltersATextureThatIsStretched) {
  Image texture(2, 1);
  texture.at(0, 0) = rgb(0, 0, 0);
  texture.at(1, 0) = rgb(200, 200, 200);
  Drawing drawing(4, 1, texture);
  drawing.add_rectangle({0, 0}, {4, 1}, kWhite, {0, 0, 100, 100}, {0, 0}, {1, 1});
  // Centres of the four pixels lie at -1/4, 1/4, 3/4 and 5/4 texels from the first one's centre.
  EXPECT_EQ(drawing.drawn().pixels, (std::vector<Color>{rgb(0, 0, 0), rgb(50, 50, 50),
                                                        rgb(150, 150, 150), rgb(200, 200, 200)}));
}

TEST(SoftwareRenderer, ColoursRunFromVertexToVertex) {
  Drawing drawing(100, 1);
  drawing.add({vertex(0, -10, kBlack), vertex(100, 0.5f, rgb(200, 100, 0)), vertex(0, 11, kBlack)});
  const Image& image = drawing.drawn();
  for (int x = 1; x < 98; ++x) {
    EXPECT_NEAR(static_cast<int>(image.at(x, 0) & 255), 2 * x + 1, 1) << x;
    EXPECT_NEAR(static_cast<int>(image.at(x, 0) >> 8 & 255), x, 1) << x;
  }
}

TEST(SoftwareRenderer, CoordinatesBeyondAllBoundsAreHarmless) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float far : {1e9f, -1e30f, inf, -inf, nan}) {
    Drawing drawing(4, 4);
    drawing.add({vertex(far, 0), vertex(0, far), vertex(2, 2)});
    drawing.add_rectangle({0, 0}, {far, far}, kHalf);
    drawing.add_rectangle({far, 1}, {3, 3}, kHalf);
    drawing.drawn();
  }
  Drawing drawing(4, 4);
  drawing.add_rectangle({-1e9f, -1e9f}, {1e9f, 1e9f}, kWhite);
  EXPECT_EQ(drawing.drawn().pixels, std::vector<Color>(16, kWhite));
}

TEST(Png, ComesBackAsItWas) {
  Image image(13, 7);
  for (std::size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = rgb(static_cast<int>(i), static_cast<int>(2 * i), static_cast<int>(255 - i));
  const std::string path = testing::TempDir() + "ringscope_png_" + std::to_string(::getpid());
  write_png(path, image);
  const Image read = read_png(path);
  std::filesystem::remove(path);
  EXPECT_EQ(read.width, 13);
  EXPECT_EQ(read.height, 7);
  EXPECT_EQ(read.pixels, image.pixels);
}

}  // namespace
}  // namespace ringscope::viz

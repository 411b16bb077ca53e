// Whether text can be read on the colours that it stands on.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/tools/foreign/trace_files.h"
#include "tests/viz/panel_stage.h"
#include "tests/viz_data/profiled.h"

namespace ringscope::viz {
namespace {

double luminance(Color color) {
  double sum = 0;
  for (const auto& [shift, weight] : {std::pair(0, 0.2126), {8, 0.7152}, {16, 0.0722}}) {
    const double c = (color >> shift & 255) / 255.0;
    sum += weight * (c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4));
  }
  return sum;
}

// WCAG 2's.
double contrast(Color a, Color b) {
  const double one = luminance(a), two = luminance(b);
  return (std::max(one, two) + 0.05) / (std::min(one, two) + 0.05);
}

TEST(Ink, ReadsOnEveryColour) {
  EXPECT_NEAR(contrast(rgb(0, 0, 0), rgb(255, 255, 255)), 21, 1e-9);
  for (const Theme theme : {Theme::dark, Theme::light}) {
    for (const int ranks : {8, 16, 512})
      for (int owner = 0; owner < ranks; ++owner) {
        const Color ground = owner_color(theme, owner, ranks);
        EXPECT_GE(contrast(ink_on(ground), ground), 4.5) << owner << " of " << ranks;
      }
    for (int kind = 0; kind < kLaneKinds; ++kind) {
      const Color ground = palette_of(theme).of(static_cast<Lane>(kind));
      EXPECT_GE(contrast(ink_on(ground), ground), 4.5) << kind;
    }
  }
}

// The band's colours are those of two passes, with and without exposed communication.
TEST(Ink, ReadsOnTheBandOfLayers) {
  const TemporaryFolder folder;
  Stage stage(draw_layers, documents_of(load_traces(write_profiles(folder)).front()), 800, 30);
  for (const Theme theme : {Theme::dark, Theme::light}) {
    stage.session.look.theme = theme;
    const Palette& palette = palette_of(theme);
    std::map<Color, std::size_t> pixels;
    const Image picture = stage.picture();
    for (const Color color : picture.pixels) ++pixels[color];
    EXPECT_GE(contrast(palette.text_dim, palette.panel), 4.5);
    for (const Color ink : {palette.text, palette.text_dim, palette.selection}) pixels.erase(ink);
    std::erase_if(pixels, [&](const auto& p) { return p.second < picture.pixels.size() / 100; });
    EXPECT_EQ(pixels.size(), 5u);  // with that of the panel
    for (const auto& [ground, count] : pixels)
      EXPECT_GE(contrast(palette.text, ground), 4.5) << std::hex << ground;
  }
}

}  // namespace
}  // namespace ringscope::viz

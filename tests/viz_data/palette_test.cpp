// Whether people with any colour vision can tell the colours apart. Distances are in Oklab, where a
// hundredth is about what can just be seen side by side.
#include "viz/data/timeline/palette.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <vector>

namespace ringscope::viz {
namespace {

using Triple = std::array<double, 3>;

// Machado, Oliveira and Fernandes 2009, severity 1; on linear RGB.
struct Vision {
  const char* name;
  std::array<Triple, 3> matrix;
};
const Vision kVisions[] = {
    {"normal", {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}}},
    {"protanopia",
     {{{0.152286, 1.052583, -0.204868},
       {0.114503, 0.786281, 0.099216},
       {-0.003882, -0.048116, 1.051998}}}},
    {"deuteranopia",
     {{{0.367322, 0.860646, -0.227968},
       {0.280085, 0.672501, 0.047413},
       {-0.011820, 0.042940, 0.968881}}}},
    {"tritanopia",
     {{{1.255528, -0.076749, -0.178779},
       {-0.078411, 0.930809, 0.147602},
       {0.004733, 0.691367, 0.303900}}}},
};

Triple seen(const Vision& vision, Color color) {
  Triple linear{};
  for (std::size_t i = 0; i < 3; ++i) {
    const double c = (color >> (8 * i) & 255) / 255.0;
    linear[i] = c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  }
  Triple result{};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) result[i] += vision.matrix[i][j] * linear[j];
    result[i] = std::clamp(result[i], 0.0, 1.0);
  }
  return result;
}

Triple oklab(const Triple& c) {
  const double l = std::cbrt(0.4122214708 * c[0] + 0.5363325363 * c[1] + 0.0514459929 * c[2]);
  const double m = std::cbrt(0.2119034982 * c[0] + 0.6806995451 * c[1] + 0.1073969566 * c[2]);
  const double s = std::cbrt(0.0883024619 * c[0] + 0.2817188376 * c[1] + 0.6299787005 * c[2]);
  return {0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
          1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
          0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s};
}

double distance(const Vision& vision, Color one, Color two) {
  const Triple a = oklab(seen(vision, one)), b = oklab(seen(vision, two));
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

double lightness(Color color) { return oklab(seen(kVisions[0], color))[0]; }

double least_distance(const Vision& vision, const std::vector<Color>& colors) {
  double least = 1;
  for (std::size_t i = 0; i < colors.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      least = std::min(least, distance(vision, colors[i], colors[j]));
  return least;
}

// WCAG 2's contrast ratio.
double contrast(Color one, Color two) {
  const auto luminance = [](Color color) {
    const Triple c = seen(kVisions[0], color);
    return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2];
  };
  const double a = luminance(one), b = luminance(two);
  return (std::max(a, b) + 0.05) / (std::min(a, b) + 0.05);
}

constexpr Theme kThemes[] = {Theme::dark, Theme::light};

std::vector<Color> owners(Theme theme, int world_size) {
  std::vector<Color> colors;
  for (int owner = 0; owner < world_size; ++owner)
    colors.push_back(owner_color(theme, owner, world_size));
  return colors;
}

// Okabe and Ito's eight come to 0.076, Tol's bright ones to 0.033.
TEST(Palette, UpToEightOwnersDifferForEveryVision) {
  for (const Theme theme : kThemes)
    for (const Vision& vision : kVisions)
      EXPECT_GE(least_distance(vision, owners(theme, 8)), 0.1)
          << vision.name << (theme == Theme::dark ? " dark" : " light");
}

TEST(Palette, TheMeasureFindsColorsThatCannotBeToldApart) {
  const std::vector<Color> red_and_green = {rgb(200, 90, 60), rgb(125, 135, 50)};
  EXPECT_GT(least_distance(kVisions[0], red_and_green), 0.15);
  EXPECT_LT(least_distance(kVisions[2], red_and_green), 0.05);
}

TEST(Palette, WaitingIsNoOwnersColor) {
  for (const Theme theme : kThemes)
    for (const Vision& vision : kVisions)
      for (const Color owner : owners(theme, 8))
        EXPECT_GE(distance(vision, owner, palette_of(theme).of(Lane::wait)), 0.07) << vision.name;
}

TEST(Palette, OwnersAndKindsStandOutFromRows) {
  for (const Theme theme : kThemes) {
    const Palette& palette = palette_of(theme);
    for (const Color row : {palette.row_even, palette.row_odd, palette.background}) {
      for (const Vision& vision : kVisions) {
        for (const Color owner : owners(theme, 8))
          EXPECT_GE(distance(vision, owner, row), 0.11) << vision.name;
        for (const Color kind : palette.kind)
          EXPECT_GE(distance(vision, kind, row), 0.08) << vision.name;
      }
    }
  }
}

TEST(Palette, KindsDifferInLightnessAsWellAsHue) {
  for (const Theme theme : kThemes) {
    const Palette& palette = palette_of(theme);
    const std::vector<Color> kinds(palette.kind, palette.kind + 4);
    for (const Vision& vision : kVisions) EXPECT_GE(least_distance(vision, kinds), 0.07);
    for (std::size_t i = 0; i < kinds.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        EXPECT_GE(std::abs(lightness(kinds[i]) - lightness(kinds[j])), 0.05);
  }
}

// So it is no owner's, and the strongest contrast that there is.
TEST(Palette, WaitingHasNoHue) {
  for (const Theme theme : kThemes) {
    const Palette& palette = palette_of(theme);
    const Color wait = palette.of(Lane::wait);
    const Triple seen_by_all = oklab(seen(kVisions[0], wait));
    EXPECT_LT(std::hypot(seen_by_all[1], seen_by_all[2]), 0.04);
    for (const Color kind : palette.kind)
      EXPECT_LE(contrast(kind, palette.row_even), contrast(wait, palette.row_even));
  }
}

TEST(Palette, TextCanBeRead) {
  for (const Theme theme : kThemes) {
    const Palette& palette = palette_of(theme);
    for (const Color ground : {palette.background, palette.panel, palette.row_even}) {
      EXPECT_GE(contrast(palette.text, ground), 10);
      EXPECT_GE(contrast(palette.text_dim, ground), 4);
    }
  }
  EXPECT_LT(lightness(palette_of(Theme::dark).background), 0.25);
  EXPECT_GT(lightness(palette_of(Theme::light).background), 0.95);
}

TEST(Palette, BeyondEightOwnersNeighboursInTheRingDiffer) {
  for (const Theme theme : kThemes)
    for (const int world_size : {9, 16}) {
      const std::vector<Color> colors = owners(theme, world_size);
      for (std::size_t i = 0; i + 1 < colors.size(); ++i)
        for (const Vision& vision : kVisions)
          EXPECT_GE(distance(vision, colors[i], colors[i + 1]), 0.06) << vision.name << " " << i;
      const std::set<Color> distinct(colors.begin(), colors.end());
      EXPECT_EQ(distinct.size(), static_cast<std::size_t>(world_size));
    }
}

// With 16 nodes of 4 ranks, a node's owners look alike and neighbouring nodes don't; beyond 16 nodes
// some neighbours share a colour, and all 16 are used.
TEST(Palette, BeyondSixteenOwnersColorsGoByNode) {
  for (const Theme theme : kThemes) {
    const std::vector<Color> colors = owners(theme, 64);
    for (std::size_t i = 0; i + 1 < colors.size(); ++i)
      if (i % 4 == 3)
        EXPECT_GE(distance(kVisions[0], colors[i], colors[i + 1]), 0.03) << i;
      else
        EXPECT_EQ(colors[i], colors[i + 1]) << i;
    for (const int world_size : {17, 100, 1024}) {
      const std::vector<Color> many = owners(theme, world_size);
      EXPECT_EQ(std::set<Color>(many.begin(), many.end()).size(), 16u) << world_size;
      EXPECT_EQ(owner_class(world_size - 1, world_size), 15);
    }
  }
}

TEST(Palette, OddOwnersHaveAColorToo) {
  for (const Theme theme : kThemes) {
    EXPECT_EQ(owner_color(theme, -1, 4), palette_of(theme).of(Lane::other));
    EXPECT_EQ(owner_color(theme, 100000, 4) >> 24, 255u);
    EXPECT_EQ(owner_color(theme, 100000, 200000) >> 24, 255u);
  }
}

TEST(Palette, MixingAndAlpha) {
  EXPECT_EQ(mix(rgb(10, 20, 30), rgb(110, 220, 40), 0), rgb(10, 20, 30));
  EXPECT_EQ(mix(rgb(10, 20, 30), rgb(110, 220, 40), 1), rgb(110, 220, 40));
  EXPECT_EQ(mix(rgb(10, 20, 30), rgb(110, 220, 40), 0.5), rgb(60, 120, 35));
  EXPECT_EQ(with_alpha(rgb(1, 2, 3), 0.5), rgb(1, 2, 3, 128));
  EXPECT_EQ(with_alpha(rgb(1, 2, 3), 7), rgb(1, 2, 3, 255));
}

TEST(Palette, SlicesByOwnerAndByKind) {
  const Theme theme = Theme::dark;
  const Palette& palette = palette_of(theme);
  TraceEvent slice = plain_slice();
  slice.lane = Lane::compute;
  slice.kv_owner = 2;
  const auto owner = [&] { return slice_color(theme, ColorBy::owner, slice, 4); };
  const auto kind = [&] { return slice_color(theme, ColorBy::kind, slice, 4); };
  EXPECT_EQ(owner(), owner_color(theme, 2, 4));
  EXPECT_EQ(kind(), palette.kind[0]);
  slice.lane = Lane::send;
  EXPECT_NE(owner(), owner_color(theme, 2, 4));
  EXPECT_LT(distance(kVisions[0], owner(), owner_color(theme, 2, 4)), 0.3);
  EXPECT_EQ(kind(), palette.kind[1]);
  slice.lane = Lane::wait;  // whatever the colours go by
  EXPECT_EQ(owner(), palette.kind[3]);
  EXPECT_EQ(kind(), palette.kind[3]);
  slice.lane = Lane::communication;
  slice.kv_owner = -1;
  EXPECT_EQ(owner(), palette.kind[4]);
  slice.lane = Lane::other;
  const Color first = owner();
  slice.name = 1;
  EXPECT_NE(owner(), first);
  EXPECT_EQ(kind(), palette.kind[5]);
}

}  // namespace
}  // namespace ringscope::viz

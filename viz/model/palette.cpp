#include "viz/model/palette.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace ringscope::viz {
namespace {

constexpr Color hex(std::uint32_t value) {
  return rgb(static_cast<int>(value >> 16), static_cast<int>(value >> 8 & 255),
             static_cast<int>(value & 255));
}

constexpr Palette kDark = {
    .background = hex(0x11151c),
    .panel = hex(0x171c25),
    .panel_border = hex(0x2a3240),
    .text = hex(0xe3e8ef),
    .text_dim = hex(0x8b97a8),
    .grid = hex(0x262e3b),
    .row_even = hex(0x161b24),
    .row_odd = hex(0x1a202a),
    .accent = hex(0x5fa8f5),
    .selection = hex(0xffffff),
    .playhead = hex(0xffe08a),
    .critical_path = hex(0xff5fa2),
    .warning = hex(0xff9f43),
    .flow = hex(0x9fb3c8),
    .empty_tile = hex(0x1d242f),
    .full_tile = hex(0x5fa8f5),
    .partial_tile = hex(0x3a6ba5),
    .kind = {hex(0x4c8fd6), hex(0x8fdcb9), hex(0x2f9480), hex(0xff9f43), hex(0xc9b6f2),
             hex(0x6d7a8c)},
};
constexpr Palette kLight = {
    .background = hex(0xf7f8fa),
    .panel = hex(0xffffff),
    .panel_border = hex(0xd5dae2),
    .text = hex(0x1d2530),
    .text_dim = hex(0x66717f),
    .grid = hex(0xe2e6ec),
    .row_even = hex(0xeff1f5),
    .row_odd = hex(0xe8ebf0),
    .accent = hex(0x1f6fc4),
    .selection = hex(0x0b0f15),
    .playhead = hex(0xb03a00),
    .critical_path = hex(0xc4186c),
    .warning = hex(0xd9600a),
    .flow = hex(0x5b6b7d),
    .empty_tile = hex(0xe4e8ee),
    .full_tile = hex(0x1f6fc4),
    .partial_tile = hex(0x86b3e0),
    .kind = {hex(0x2f6db3), hex(0x62b592), hex(0x0d5c4c), hex(0xe8730c), hex(0x8e6cc9),
             hex(0x8a95a3)},
};

constexpr int kOwners = 8;
// Near Okabe and Ito's; moved until the least distance under every kind of colour vision is as
// large as it gets without a colour losing its name.
constexpr Color kDarkOwners[kOwners] = {hex(0x56a8e8), hex(0xf0a030), hex(0x1fa37c), hex(0xf2e35e),
                                        hex(0x8d6fe0), hex(0xe88bb8), hex(0x9fe3dc), hex(0xc8553d)};
constexpr Color kLightOwners[kOwners] = {hex(0x2b7cc4), hex(0xe08a00), hex(0x00835f), hex(0xc9b200),
                                         hex(0x5b3fb0), hex(0xc8588f), hex(0x4fb8c4), hex(0x9c2f1c)};

// Björn Ottosson's Oklab: equal steps look equal, so a wheel in it has hues of one strength.
Color oklch(double lightness, double chroma, double hue) {
  constexpr double kTurn = 2 * 3.14159265358979323846;
  const double a = chroma * std::cos(kTurn * hue), b = chroma * std::sin(kTurn * hue);
  const double l = std::pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
  const double m = std::pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
  const double s = std::pow(lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
  const auto byte = [](double linear) {
    linear = std::clamp(linear, 0.0, 1.0);
    const double encoded =
        linear <= 0.0031308 ? 12.92 * linear : 1.055 * std::pow(linear, 1 / 2.4) - 0.055;
    return static_cast<int>(std::lround(255 * encoded));
  };
  return rgb(byte(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
             byte(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
             byte(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s));
}

// Sixteen places, then again from the start: more hues nobody tells apart, and the timeline's sums
// are by sixteen classes. Ring neighbours differ in lightness and by more than a quarter turn.
constexpr int kWheel = 16;

std::array<Color, kWheel> make_wheel(Theme theme) {
  std::array<Color, kWheel> wheel{};
  constexpr double kDarkLightness[] = {0.62, 0.86, 0.74}, kLightLightness[] = {0.42, 0.70, 0.56};
  for (int i = 0; i < kWheel; ++i) {
    const double lightness = theme == Theme::dark ? kDarkLightness[i % 3] : kLightLightness[i % 3];
    wheel[static_cast<std::size_t>(i)] = oklch(lightness, 0.12, 0.7 + 5.0 * i / kWheel);
  }
  return wheel;
}

}  // namespace

Color mix(Color under, Color over, double share) {
  // The complement is written out, so that a share of 0 and of 1 give back the colours.
  const double keep = 1 - share;
  const auto channel = [&](int shift) {
    const double value = keep * (under >> shift & 255) + share * (over >> shift & 255);
    return static_cast<int>(value + 0.5);
  };
  return rgb(channel(0), channel(8), channel(16));
}

Color with_alpha(Color color, double alpha) {
  const auto a = static_cast<Color>(std::clamp(alpha, 0.0, 1.0) * 255 + 0.5);
  return (color & 0xffffff) | a << 24;
}

const Palette& palette_of(Theme theme) { return theme == Theme::dark ? kDark : kLight; }

Color owner_color(Theme theme, int owner, int world_size) {
  const bool dark = theme == Theme::dark;
  if (owner < 0) return palette_of(theme).kind[static_cast<int>(Kind::other)];
  if (world_size <= kOwners) return (dark ? kDarkOwners : kLightOwners)[owner % kOwners];
  static const std::array<Color, kWheel> dark_wheel = make_wheel(Theme::dark);
  static const std::array<Color, kWheel> light_wheel = make_wheel(Theme::light);
  return (dark ? dark_wheel : light_wheel)[static_cast<std::size_t>(owner % kWheel)];
}

Color slice_color(const Palette& palette, Theme theme, ColorBy by, const Slice& slice,
                  int world_size) {
  const Color kind = palette.kind[static_cast<int>(slice.kind)];
  if (by == ColorBy::kind || slice.kind == Kind::wait) return kind;
  if (slice.kind == Kind::other) {
    const Color of_name = owner_color(theme, static_cast<int>(slice.name % kOwners), kOwners);
    return mix(of_name, palette.background, 0.35);
  }
  if (slice.kv_owner < 0) return kind;
  const Color owner = owner_color(theme, slice.kv_owner, world_size);
  return slice.kind == Kind::compute ? owner : mix(owner, palette.background, 0.3);
}

}  // namespace ringscope::viz

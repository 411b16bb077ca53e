#include "viz/data/timeline/palette.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace ringscope::viz {

void Image::fill(int x0, int y0, int x1, int y1, Color color) {
  x0 = std::max(x0, 0);
  y0 = std::max(y0, 0);
  x1 = std::min(x1, width);
  y1 = std::min(y1, height);
  if (x0 >= x1) return;
  for (int y = y0; y < y1; ++y) {
    const auto row = pixels.begin() + static_cast<std::ptrdiff_t>(index(0, y));
    std::fill(row + x0, row + x1, color);
  }
}

namespace {

constexpr Color hex(std::uint32_t value) { return rgb(value >> 16, value >> 8 & 255, value & 255); }

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
    // Waiting has no hue, so it looks like no owner.
    .kind = {hex(0x4a86d0), hex(0x6fcda6), hex(0x1f7a66), hex(0xf3e9da), hex(0xb48ff0),
             hex(0x4d5663)},
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
    .kind = {hex(0x2a63c0), hex(0x7fcaab), hex(0x2a8f6e), hex(0x3d3a36), hex(0xa57be0),
             hex(0xb4bcc6)},
};

constexpr int kOwners = 8;
// These follow Okabe and Ito, moved until the least distance between two of them, and to waiting,
// is about as large as it gets for every kind of colour vision.
constexpr Color kDarkOwners[kOwners] = {hex(0x9bb0ef), hex(0xd78f24), hex(0x3ead8b), hex(0x8f7de3),
                                        hex(0xc8cb61), hex(0x92678b), hex(0x06debb), hex(0xc35a24)};
constexpr Color kLightOwners[kOwners] = {hex(0x6a89fa), hex(0xdf7306), hex(0x00786c),
                                         hex(0x564290), hex(0xd0c12b), hex(0xb687aa),
                                         hex(0x76cbec), hex(0xb23804)};

// Convert from Björn Ottosson's Oklab. Equal steps in it look equal, so a wheel looks uniform.
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

// The wheel has sixteen colours, because nobody tells more hues apart and the timeline sums by
// sixteen classes. In a `vivid` wheel ring neighbours differ in lightness and by over a quarter
// turn. The other one is for classes of owners: it goes round once, in quiet pairs of light and dark.
std::array<Color, kOwnerClasses> make_wheel(Theme theme, bool vivid) {
  std::array<Color, kOwnerClasses> wheel{};
  constexpr double kDarkLightness[] = {0.58, 0.84, 0.66, 0.76};
  constexpr double kLightLightness[] = {0.44, 0.72, 0.52, 0.64};
  const double* const lightness = theme == Theme::dark ? kDarkLightness : kLightLightness;
  for (int i = 0; i < kOwnerClasses; ++i)
    wheel[i] = vivid ? oklch(lightness[i % 4], 0.12, 0.7 + 5.0 * i / kOwnerClasses)
                     : oklch(lightness[2 + i % 2], 0.085, 0.7 + 1.0 * (i / 2 * 2) / kOwnerClasses);
  return wheel;
}

// Return the colour of work around the ring, which is quieter than the owners' colours.
Color part_color(const Palette& palette, ModelPart part) {
  const std::pair<Color, double> strengths[] = {
      {palette.of(Lane::other), 1}, {palette.accent, 0.4},
      {palette.accent, 0.75},       {palette.of(Lane::communication), 0.5},
      {palette.playhead, 0.5},      {palette.of(Lane::send), 0.7},
      {palette.warning, 0.6}};  // by part
  const auto [color, strength] = strengths[static_cast<int>(part)];
  return mix(palette.background, color, strength);
}

}  // namespace

// Work at the tensor cores is strong, softmax stands out against it, and waiting is pale.
Color kernel_color(Theme theme, KernelPart part) {
  const Palette& palette = palette_of(theme);
  const Color wait = palette.of(Lane::wait), other = palette.of(Lane::other);
  const Color colors[] = {palette.of(Lane::recv),
                          other,
                          wait,
                          mix(palette.background, wait, 0.55),
                          palette.accent,
                          palette.warning,
                          palette.of(Lane::communication),
                          wait,
                          mix(palette.background, wait, 0.55),
                          palette.of(Lane::recv),
                          mix(palette.background, palette.warning, 0.6),
                          palette.of(Lane::communication),
                          palette.of(Lane::send),
                          palette.flow,
                          other};
  return colors[static_cast<int>(part)];
}

Color mix(Color under, Color over, double share) {
  // Write out the complement, so that shares of 0 and 1 return the colours exactly.
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
  if (owner < 0) return palette_of(theme).of(Lane::other);
  if (world_size <= kOwners) {
    // Choose the array before indexing: g++ 12's bounds sanitizer takes the second's first element.
    const Color* const colors = dark ? kDarkOwners : kLightOwners;
    return colors[owner % kOwners];
  }
  static const std::array<Color, kOwnerClasses> wheels[] = {
      make_wheel(Theme::dark, false), make_wheel(Theme::dark, true),
      make_wheel(Theme::light, false), make_wheel(Theme::light, true)};
  const std::size_t wheel = (dark ? 0 : 2) + (world_size <= kOwnerClasses ? 1 : 0);
  return wheels[wheel][owner_class(owner, world_size)];
}

Color slice_color(Theme theme, ColorBy by, const TraceEvent& slice, int world_size) {
  const Palette& palette = palette_of(theme);
  const Color kind = palette.of(slice.lane);
  if (by == ColorBy::kind || slice.lane == Lane::wait) return kind;
  if (const auto part = kernel_part(slice)) return kernel_color(theme, *part);
  if (slice.part >= 0) return part_color(palette, static_cast<ModelPart>(slice.part));
  if (slice.lane == Lane::other) {
    const Color of_name = owner_color(theme, slice.name % kOwners, kOwners);
    return mix(of_name, palette.background, 0.35);
  }
  if (slice.kv_owner < 0) return kind;
  const Color owner = owner_color(theme, slice.kv_owner, world_size);
  return slice.lane == Lane::compute ? owner : mix(owner, palette.background, 0.3);
}

}  // namespace ringscope::viz

// bf16 and f16 over all of their 65,536 patterns, and the rounding into them at every boundary
// between two neighbours.
#include "core/base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/base/text.h"
#include "tests/core/base/thrown.h"

namespace ringscope {
namespace {

template <class T>
class Storage16 : public testing::Test {};
using Storage16Types = testing::Types<bf16, f16>;
TYPED_TEST_SUITE(Storage16, Storage16Types);

template <class T>
T pattern(int bits) {
  return {static_cast<std::uint16_t>(bits)};
}

// What the bits say, from the definition of the format.
double value_of(bf16 x) {
  const int exponent = x.bits >> 7 & 0xff, fraction = x.bits & 0x7f;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -133) : std::ldexp(128 + fraction, exponent - 134);
  return x.bits & 0x8000 ? -magnitude : magnitude;
}
double value_of(f16 x) {
  const int exponent = x.bits >> 10 & 0x1f, fraction = x.bits & 0x3ff;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return x.bits & 0x8000 ? -magnitude : magnitude;
}
template <class T>
constexpr int kInfinity = 0;
template <>
constexpr int kInfinity<bf16> = 0x7f80;
template <>
constexpr int kInfinity<f16> = 0x7c00;

TYPED_TEST(Storage16, EveryPatternRoundTrips) {
  for (int bits = 0; bits < 65536; ++bits) {
    const auto x = pattern<TypeParam>(bits);
    const float value = x.to_float();
    const int magnitude = bits & 0x7fff;
    EXPECT_EQ(std::signbit(value), bits >= 0x8000) << bits;
    if (magnitude > kInfinity<TypeParam>) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      const auto back = TypeParam::from_float(value);
      EXPECT_GT(back.bits & 0x7fff, kInfinity<TypeParam>) << bits;
      EXPECT_EQ(back.bits >> 15, bits >> 15) << bits;
      continue;
    }
    if (magnitude == kInfinity<TypeParam>) {
      EXPECT_TRUE(std::isinf(value)) << bits;
    } else {
      EXPECT_EQ(static_cast<double>(value), value_of(x)) << bits;
    }
    EXPECT_EQ(TypeParam::from_float(value).bits, bits);
  }
}

// Between each finite pattern and the next: what lies just below, on, and just above the middle.
// Beyond the largest finite one, the next is what would follow if the exponent had no end; it
// rounds to infinity.
TYPED_TEST(Storage16, RoundsToNearestTiesToEven) {
  for (int bits = 0; bits < kInfinity<TypeParam>; ++bits) {
    const double middle =
        (value_of(pattern<TypeParam>(bits)) + value_of(pattern<TypeParam>(bits + 1))) / 2;
    const auto tie = static_cast<float>(middle);
    ASSERT_EQ(static_cast<double>(tie), middle) << bits;  // exact, so it is a tie
    for (const int sign : {0, 0x8000}) {
      const auto rounded = [&](float value) {
        return TypeParam::from_float(sign == 0 ? value : -value).bits ^ sign;
      };
      EXPECT_EQ(rounded(tie), bits % 2 == 0 ? bits : bits + 1);
      EXPECT_EQ(rounded(std::nextafter(tie, 0.0f)), bits);
      EXPECT_EQ(rounded(std::nextafter(tie, std::numeric_limits<float>::infinity())), bits + 1);
    }
  }
}

TYPED_TEST(Storage16, LargeValuesBecomeInfinite) {
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(TypeParam::from_float(largest).bits, kInfinity<TypeParam>);
  EXPECT_EQ(TypeParam::from_float(-largest).bits, kInfinity<TypeParam> | 0x8000);
}

// A NaN whose payload lies in the bits that are cut off must not turn into infinity.
TYPED_TEST(Storage16, NanStaysNan) {
  for (const std::uint32_t payload : {1u, 0x1fffu, 0x2000u, 0xffffu, 0x400000u, 0x7fffffu})
    for (const std::uint32_t sign : {0u, 0x80000000u}) {
      const float nan = std::bit_cast<float>(sign | 0x7f800000u | payload);
      EXPECT_TRUE(std::isnan(TypeParam::from_float(nan).to_float())) << payload;
    }
}

TEST(DTypes, ConversionsByName) {
  EXPECT_EQ(round_to(DType::f32, 0.1f), 0.1f);
  EXPECT_EQ(round_to(DType::bf16, 0.1f), bf16::from_float(0.1f).to_float());
  EXPECT_EQ(round_to(DType::f16, 0.1f), f16::from_float(0.1f).to_float());
  for (const DType dtype : kAllDTypes) {
    EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
    const auto size = visit_dtype(dtype, [](auto value) { return sizeof(value); });
    EXPECT_EQ(static_cast<int>(size), bytes_of(dtype));
    const float through =
        visit_dtype(dtype, []<class T>(T) { return to_float(from_float<T>(3.14159265f)); });
    EXPECT_EQ(through, round_to(dtype, 3.14159265f));
  }
  for (const char* bad : {"", "f64", "F32", "float", "bf16 "})
    expect_contains(input_error_of([&] { parse_dtype(bad); }), "bf16");
}

}  // namespace
}  // namespace ringscope

// The three storage types, and conversions between f32 and the two 16-bit types. Computation is
// always in f32; bf16 and f16 only store and send Q, K, V and the results.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "core/base/names.h"

namespace ringscope {

enum class DType { f32, bf16, f16 };
constexpr auto names_of(DType) { return list_of({"f32", "bf16", "f16"}); }
inline constexpr auto kAllDTypes = kAllOf<DType>;

constexpr int bytes_of(DType dtype) { return dtype == DType::f32 ? 4 : 2; }

// bfloat16 is the upper half of an f32.
struct bf16 {
  std::uint16_t bits;

  // Round to nearest, ties to even. A NaN stays a NaN.
  static constexpr bf16 from_float(float value) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((u >> 16) | 0x40u)};
    return {static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
  }
  constexpr float to_float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

// f16 is IEEE 754 binary16.
struct f16 {
  std::uint16_t bits;

  // Round to nearest, ties to even. Values of 65520 and more become infinite; a NaN stays a NaN.
  static constexpr f16 from_float(float value) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (u >> 16) & 0x8000u;
    const std::uint32_t magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
    if (magnitude >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};
    if (magnitude < 0x38800000u) {
      // The result is subnormal. Adding 0.5 aligns f16's smallest step (2^-24) with the last bit of
      // the sum, so the addition does the rounding.
      const float sum = std::bit_cast<float>(magnitude) + 0.5f;
      return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(sum) - 0x3f000000u))};
    }
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u;
    return {static_cast<std::uint16_t>(sign | (rounded >> 13))};
  }
  constexpr float to_float() const {
    const std::uint32_t sign = (bits & 0x8000u) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1fu;
    const std::uint32_t fraction = bits & 0x3ffu;
    if (exponent == 0) {
      const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
      return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
    }
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (fraction << 13));
  }
};

constexpr float to_float(float value) { return value; }
constexpr float to_float(bf16 value) { return value.to_float(); }
constexpr float to_float(f16 value) { return value.to_float(); }

template <class T>
constexpr T from_float(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    return T::from_float(value);
  }
}

// Return `value` as it reads after being stored in `dtype`.
constexpr float round_to(DType dtype, float value) {
  switch (dtype) {
    case DType::f32:
      return value;
    case DType::bf16:
      return bf16::from_float(value).to_float();
    case DType::f16:
      return f16::from_float(value).to_float();
  }
  return value;
}

// Call f with a value of the C++ type that stores `dtype`: visit_dtype(d, [&]<class T>(T) {...}).
template <class F>
decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::bf16:
      return f(bf16{});
    case DType::f16:
      return f(f16{});
    default:
      return f(float{});
  }
}

}  // namespace ringscope

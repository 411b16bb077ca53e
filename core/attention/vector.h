// Floats side by side: as many as the machine's vector registers hold, written with the compiler's
// vector extension so that one source serves AVX-512, AVX2, SSE and NEON.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/base/math.h"

namespace ringscope {

#if defined(__AVX512F__)
inline constexpr int kVectorWidth = 16;
inline constexpr const char* kVectorIsa = "AVX-512";
#elif defined(__AVX__)
inline constexpr int kVectorWidth = 8;
#if defined(__AVX2__)
inline constexpr const char* kVectorIsa = "AVX2";
#else
inline constexpr const char* kVectorIsa = "AVX";
#endif
#elif defined(__ARM_NEON)
inline constexpr int kVectorWidth = 4;
inline constexpr const char* kVectorIsa = "NEON";
#else
inline constexpr int kVectorWidth = 4;
inline constexpr const char* kVectorIsa = "SSE";
#endif

typedef float Vector __attribute__((vector_size(sizeof(float) * kVectorWidth)));
typedef std::uint32_t BitsVector __attribute__((vector_size(sizeof(float) * kVectorWidth)));

inline Vector broadcast(float x) { return x - Vector{}; }

inline Vector load(const float* from) {
  Vector v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
inline void store(float* to, Vector v) { std::memcpy(to, &v, sizeof v); }

// The first `count` lanes; the others load as 0 and are not stored.
inline Vector load_first(const float* from, Index count) {
  Vector v{};
  std::memcpy(&v, from, sizeof(float) * static_cast<std::size_t>(count));
  return v;
}
inline void store_first(float* to, Vector v, Index count) {
  std::memcpy(to, &v, sizeof(float) * static_cast<std::size_t>(count));
}

inline Vector max_of(Vector a, Vector b) { return a > b ? a : b; }

// In f64: the lanes of a row's weights often differ in size, and their sum divides everything.
inline double sum_of_lanes(Vector v) {
  float lanes[kVectorWidth];
  store(lanes, v);
  double sum = 0;
  for (float x : lanes) sum += x;
  return sum;
}

inline float max_of_lanes(Vector v) {
  float lanes[kVectorWidth];
  store(lanes, v);
  float result = lanes[0];
  for (float x : lanes) result = result > x ? result : x;
  return result;
}

// e^x for x <= 87, relative error below 1.2e-7; e^0 is exactly 1, e^-inf exactly 0, below
// e^-87 flushed to 0, and a NaN stays a NaN. x = (n + f) ln 2 with n an integer and |f| <= 1/2: 2^f
// is a polynomial, 2^n an exponent field.
inline Vector exp_of(Vector x) {
  constexpr float kLog2E = 1.44269504088896341f, kLog2ERest = 1.925963033500e-8f;
  constexpr float kRounder =
      12582912.0f;  // 1.5 * 2^23: adding it leaves an integer in the low bits
  const Vector rounded = x * kLog2E + kRounder;
  const Vector n = rounded - kRounder;
  const Vector f = (x * kLog2E - n) + x * kLog2ERest;
  // 2^f on [-1/2, 1/2]: a Chebyshev fit of (2^f - 1) / f, relative error below 6e-9.
  Vector p = broadcast(1.546144746e-4f);
  p = p * f + 1.339086735e-3f;
  p = p * f + 9.618056670e-3f;
  p = p * f + 5.550357104e-2f;
  p = p * f + 2.402265092e-1f;
  p = p * f + 6.931471880e-1f;
  p = p * f + 1.0f;
  BitsVector bits;  // unsigned: for lanes below e^-87, whose result is dropped, it wraps
  std::memcpy(&bits, &rounded, sizeof bits);
  bits = (bits << 23) + (127 << 23);
  Vector power;
  std::memcpy(&power, &bits, sizeof power);
  return x < -87.0f ? Vector{} : p * power;
}

}  // namespace ringscope

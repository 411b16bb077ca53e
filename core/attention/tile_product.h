// Vectors of floats, and the product of two tiles. A Vector is as wide as the machine's registers.
// The compiler's vector extension makes one source serve AVX-512, AVX2, SSE and NEON.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "core/attention/vectors.h"
#include "core/base/math.h"

#ifdef RINGSCOPE_ANY_VECTORS
#error \
    "this file is compiled for vectors of every width, so it may not know one; see core/attention/vectors.h"
#endif

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

// Load or store only the first `count` lanes. The other lanes load as 0.
inline Vector load_first(const float* from, Index count) {
  Vector v{};
  std::memcpy(&v, from, sizeof(float) * static_cast<std::size_t>(count));
  return v;
}
inline void store_first(float* to, Vector v, Index count) {
  std::memcpy(to, &v, sizeof(float) * static_cast<std::size_t>(count));
}

inline Vector max_of(Vector a, Vector b) { return a > b ? a : b; }

template <class T, int kLanes>
struct LanesOf {
  typedef T type __attribute__((vector_size(sizeof(T) * kLanes)));
};

// Return combine(one half of the lanes, the other half).
template <class T, int kLanes, class Combine>
auto halved(const typename LanesOf<T, kLanes>::type& v, const Combine& combine) {
  typename LanesOf<T, kLanes / 2>::type half[2];
  std::memcpy(half, &v, sizeof half);
  return combine(half[0], half[1]);
}

// Combine all lanes into one, by halves: one after the other they would take as long as a dozen
// vectors.
template <class T, int kLanes, class Combine>
T over_lanes(const typename LanesOf<T, kLanes>::type& v, const Combine& combine) {
  if constexpr (kLanes == 1)
    return v[0];
  else
    return over_lanes<T, kLanes / 2>(halved<T, kLanes>(v, combine), combine);
}

// Sum in f64, because a row's weights often differ in size and their sum divides everything.
inline double sum_of_lanes(Vector v) {
  using Doubles = LanesOf<double, kVectorWidth / 2>::type;
  const Doubles sums = halved<float, kVectorWidth>(v, [](auto a, auto b) {
    return __builtin_convertvector(a, Doubles) + __builtin_convertvector(b, Doubles);
  });
  return over_lanes<double, kVectorWidth / 2>(sums, [](auto a, auto b) { return a + b; });
}

inline float max_of_lanes(Vector v) {
  return over_lanes<float, kVectorWidth>(v, [](auto a, auto b) { return a > b ? a : b; });
}

// Return e^x for x <= 87 with a relative error below 1.2e-7. e^0 is exactly 1, e^-inf exactly 0,
// results below e^-87 are flushed to 0, and a NaN stays a NaN. With x = (n + f) ln 2, n an integer
// and |f| <= 1/2, 2^f is a polynomial and 2^n an exponent field.
inline Vector exp_of(Vector x) {
  constexpr float kLog2E = 1.44269504088896341f, kLog2ERest = 1.925963033500e-8f;
  constexpr float kRounder =
      12582912.0f;  // 1.5 * 2^23: adding it leaves an integer in the low bits
  const Vector rounded = x * kLog2E + kRounder;
  const Vector n = rounded - kRounder;
  const Vector f = (x * kLog2E - n) + x * kLog2ERest;
  // 2^f on [-1/2, 1/2] is a Chebyshev fit of (2^f - 1) / f, with a relative error below 6e-9.
  Vector p = broadcast(1.546144746e-4f);
  p = p * f + 1.339086735e-3f;
  p = p * f + 9.618056670e-3f;
  p = p * f + 5.550357104e-2f;
  p = p * f + 2.402265092e-1f;
  p = p * f + 6.931471880e-1f;
  p = p * f + 1.0f;
  BitsVector bits;  // unsigned, so it wraps in lanes below e^-87, whose result is dropped
  std::memcpy(&bits, &rounded, sizeof bits);
  bits = (bits << 23) + (127 << 23);
  Vector power;
  std::memcpy(&power, &bits, sizeof power);
  return x < -87.0f ? Vector{} : p * power;
}

// ---
// C = A B, or C += A B, for tiles that lie in cache. All of attention's matrix products are this
// one. A micro-tile of C, kMicroRows x kMicroVectors vectors, stays in registers. The loop over the
// inner dimension broadcasts a value of A and multiplies it with the vectors of a row of B. A has
// any two strides, so it may be transposed; B's rows are padded to whole vectors, which are read. A
// long inner dimension is summed by itself and then added to C, so the rounding grows with the
// number of calls plus the length of one, not with their product (adding 32,768 keys one by one
// loses a digit and more). A short one continues C's sum, because with few rows per rank the
// rounding of that extra addition would show.

// A micro-tile is wide enough to hide the multiply-add's latency and small enough for the
// registers: 32 of them with AVX-512 and on NEON, 16 otherwise.
#if defined(__AVX512F__) || defined(__ARM_NEON)
inline constexpr int kMicroRows = 6, kMicroVectors = 4;
#else
inline constexpr int kMicroRows = 4, kMicroVectors = 3;
#endif

// A(i, k) = data[i * row_stride + k * inner_stride].
struct LeftTile {
  const float* data;
  Index row_stride;
  Index inner_stride;
};

// A matrix B that does not lie in cache is copied in panels of so many columns.
inline constexpr Index kPanel = kMicroVectors * kVectorWidth;

// Up to this inner dimension the sum in C is continued; a longer sum is added to it afterwards.
inline constexpr Index kShortSum = 32;

namespace tile_product_detail {

template <int kRows, int kVectors, Store kStore>
inline void micro_tile(const LeftTile& a, const float* b, Index b_stride, float* c, Index c_stride,
                       Index inner, Index last_lanes) {
  const bool add_on = kStore == Store::accumulate && inner <= kShortSum;
  Vector sum[kRows][kVectors] = {};
  if (add_on)
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kVectors; ++j) {
        const float* from = c + i * c_stride + j * kVectorWidth;
        sum[i][j] = j == kVectors - 1 && last_lanes < kVectorWidth ? load_first(from, last_lanes)
                                                                   : load(from);
      }
  const float* a_column = a.data;
  for (Index k = 0; k < inner; ++k) {
    Vector row[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) row[j] = load(b + j * kVectorWidth);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Vector left = broadcast(a_column[i * a.row_stride]);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) sum[i][j] += left * row[j];
    }
    a_column += a.inner_stride;
    b += b_stride;
  }
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kVectors; ++j) {
      float* to = c + i * c_stride + j * kVectorWidth;
      if (j == kVectors - 1 && last_lanes < kVectorWidth) {
        if (kStore == Store::accumulate && !add_on) sum[i][j] += load_first(to, last_lanes);
        store_first(to, sum[i][j], last_lanes);
      } else {
        if (kStore == Store::accumulate && !add_on) sum[i][j] += load(to);
        store(to, sum[i][j]);
      }
    }
}

// Compute all rows of a panel of kVectors vectors. Rows that don't fill a micro-tile get an
// instance of their own.
template <int kVectors, Store kStore>
inline void panel(LeftTile a, const float* b, Index b_stride, float* c, Index c_stride, Index rows,
                  Index inner, Index last_lanes) {
  for (; rows >= kMicroRows; rows -= kMicroRows) {
    micro_tile<kMicroRows, kVectors, kStore>(a, b, b_stride, c, c_stride, inner, last_lanes);
    a.data += kMicroRows * a.row_stride;
    c += kMicroRows * c_stride;
  }
  [&]<int... kRows>(std::integer_sequence<int, kRows...>) {
    ((rows == kRows + 1
          ? micro_tile<kRows + 1, kVectors, kStore>(a, b, b_stride, c, c_stride, inner, last_lanes)
          : void()),
     ...);
  }
  (std::make_integer_sequence<int, kMicroRows - 1>{});
}

}  // namespace tile_product_detail

// Compute C (rows x columns) = or += A (rows x inner) B (inner x columns). Strides are in floats.
// C's rows need not be padded.
template <Store kStore>
void tile_product(const LeftTile& a, const float* b, Index b_stride, float* c, Index c_stride,
                  Index rows, Index columns, Index inner) {
  using namespace tile_product_detail;
  for (; columns >= kPanel; columns -= kPanel) {
    panel<kMicroVectors, kStore>(a, b, b_stride, c, c_stride, rows, inner, kVectorWidth);
    b += kPanel;
    c += kPanel;
  }
  const Index vectors = ceil_div(columns, kVectorWidth);
  const Index last_lanes = columns - (vectors - 1) * kVectorWidth;
  [&]<int... kVectors>(std::integer_sequence<int, kVectors...>) {
    ((vectors == kVectors + 1
          ? panel<kVectors + 1, kStore>(a, b, b_stride, c, c_stride, rows, inner, last_lanes)
          : void()),
     ...);
  }
  (std::make_integer_sequence<int, kMicroVectors>{});
}

}  // namespace ringscope

// The types and variables that are built into CUDA C++, in the global namespace as there. Part of
// the model's <cuda_runtime.h>.
#pragma once

#include <cstdint>

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

// Align vectors as CUDA does, so that a misaligned vector access shows under UBSan.
#define RINGSCOPE_MODEL_VECTORS(T, name, align1, align2, align4)                \
  struct name##1 {                                                              \
    T x;                                                                        \
  };                                                                            \
  struct alignas(align2) name##2 {                                              \
    T x, y;                                                                     \
  };                                                                            \
  struct alignas(align4) name##4 {                                              \
    T x, y, z, w;                                                               \
  };                                                                            \
  constexpr name##1 make_##name##1(T x) { return {x}; }                         \
  constexpr name##2 make_##name##2(T x, T y) { return {x, y}; }                 \
  constexpr name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; } \
  static_assert(alignof(name##1) == align1)

RINGSCOPE_MODEL_VECTORS(signed char, char, 1, 2, 4);
RINGSCOPE_MODEL_VECTORS(unsigned char, uchar, 1, 2, 4);
RINGSCOPE_MODEL_VECTORS(short, short, 2, 4, 8);
RINGSCOPE_MODEL_VECTORS(unsigned short, ushort, 2, 4, 8);
RINGSCOPE_MODEL_VECTORS(int, int, 4, 8, 16);
RINGSCOPE_MODEL_VECTORS(unsigned, uint, 4, 8, 16);
RINGSCOPE_MODEL_VECTORS(float, float, 4, 8, 16);
RINGSCOPE_MODEL_VECTORS(long long, longlong, 8, 16, 16);
RINGSCOPE_MODEL_VECTORS(unsigned long long, ulonglong, 8, 16, 16);
RINGSCOPE_MODEL_VECTORS(double, double, 8, 16, 16);
#undef RINGSCOPE_MODEL_VECTORS

struct int3 {
  int x, y, z;
};
struct float3 {
  float x, y, z;
};
constexpr int3 make_int3(int x, int y, int z) { return {x, y, z}; }
constexpr uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
constexpr float3 make_float3(float x, float y, float z) { return {x, y, z}; }

// Indices of the running thread. The scheduler sets them at every switch; others only read them.
inline constinit thread_local uint3 threadIdx{0, 0, 0};
inline constinit thread_local uint3 blockIdx{0, 0, 0};
inline constinit thread_local dim3 blockDim{1, 1, 1};
inline constinit thread_local dim3 gridDim{1, 1, 1};
inline constexpr int warpSize = 32;

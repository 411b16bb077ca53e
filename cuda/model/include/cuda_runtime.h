// Stands in for NVIDIA's header when the host compiler compiles the CUDA layer: CUDA C++'s
// keywords, the device functions that our kernels call, and the runtime API, under CUDA's names. It
// omits on purpose, so that using them fails to compile: __shared__ (use shared_memory()), atomics
// on floats (results would depend on their order), <<<...>>> (use launch()).
#pragma once

// Included before the macros below, because glibc declares functions with some of these names.
#include <math.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda/model/builtin.h"
#include "cuda/model/runtime_api.h"
#include "cuda/model/simt.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

namespace ringscope::cuda::model {

// Exchange one value of every lane in `mask` and return the value of lane `source`.
template <class T>
T shuffle(const char* kind, unsigned mask, T value, int source) {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  const unsigned char* all = warp_exchange(kind, &value, sizeof(T), mask);
  T result;
  std::memcpy(&result, all + source * sizeof(T), sizeof(T));
  return result;
}

inline unsigned ballot(const char* kind, unsigned mask, int predicate) {
  const unsigned char mine = predicate != 0;
  const unsigned char* all = warp_exchange(kind, &mine, 1, mask);
  unsigned bits = 0;
  for (int i = 0; i < 32; ++i)
    if ((mask >> i & 1) != 0 && all[i] != 0) bits |= 1u << i;
  return bits;
}

template <class T>
T atomic_add(T* address, T value) {
  return std::atomic_ref<T>(*address).fetch_add(value);
}

// Exponential and logarithm through base 2, as the hardware computes them.
inline float fast_exp(float x) { return exp2f(x * 1.4426950408889634f); }
inline float fast_log(float x) { return log2f(x) * 0.6931471805599453f; }

}  // namespace ringscope::cuda::model

// These are macros because glibc has functions of these names.
#define __expf(x) ::ringscope::cuda::model::fast_exp(x)
#define __logf(x) ::ringscope::cuda::model::fast_log(x)

inline void __syncthreads() {
  ringscope::cuda::model::block_barrier(0, static_cast<int>(blockDim.x * blockDim.y * blockDim.z));
}

inline void __syncwarp(unsigned mask = ~0u) {
  ringscope::cuda::model::warp_exchange("__syncwarp", nullptr, 0, mask);
}

// Shuffle within a warp that is cut into segments of `width` lanes (a power of 2). A source outside
// the segment returns the thread's own value.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const int segment = ringscope::cuda::model::lane() & ~(width - 1);
  return ringscope::cuda::model::shuffle("__shfl_sync", mask, value,
                                         segment + (source & (width - 1)));
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  const int lane = ringscope::cuda::model::lane();
  const int source = lane ^ lane_mask;
  const int end = (lane & ~(width - 1)) + width;
  return ringscope::cuda::model::shuffle("__shfl_xor_sync", mask, value,
                                         source < end ? source : lane);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = ringscope::cuda::model::lane();
  const int source = (lane & (width - 1)) + static_cast<int>(delta);
  return ringscope::cuda::model::shuffle("__shfl_down_sync", mask, value,
                                         source < width ? lane + static_cast<int>(delta) : lane);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = ringscope::cuda::model::lane();
  const int source = (lane & (width - 1)) - static_cast<int>(delta);
  return ringscope::cuda::model::shuffle("__shfl_up_sync", mask, value,
                                         source >= 0 ? lane - static_cast<int>(delta) : lane);
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return ringscope::cuda::model::ballot("__ballot_sync", mask, predicate);
}
inline int __any_sync(unsigned mask, int predicate) {
  return ringscope::cuda::model::ballot("__any_sync", mask, predicate) != 0;
}
inline int __all_sync(unsigned mask, int predicate) {
  return ringscope::cuda::model::ballot("__all_sync", mask, predicate) == mask;
}

inline int atomicAdd(int* address, int value) {
  return ringscope::cuda::model::atomic_add(address, value);
}
inline unsigned atomicAdd(unsigned* address, unsigned value) {
  return ringscope::cuda::model::atomic_add(address, value);
}
inline unsigned long long atomicAdd(unsigned long long* address, unsigned long long value) {
  return ringscope::cuda::model::atomic_add(address, value);
}

inline void __threadfence() {}
inline void __threadfence_block() {}
[[noreturn]] inline void __trap() { throw ringscope::cuda::model::ModelError("__trap()"); }

template <class T>
T __ldg(const T* address) {
  return *address;
}

inline float __fdividef(float x, float y) { return x / y; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : 1 + std::countr_zero(static_cast<unsigned>(x)); }

#define RINGSCOPE_MODEL_MIN_MAX(T)                 \
  inline T min(T a, T b) { return b < a ? b : a; } \
  inline T max(T a, T b) { return a < b ? b : a; }
RINGSCOPE_MODEL_MIN_MAX(int)
RINGSCOPE_MODEL_MIN_MAX(unsigned)
RINGSCOPE_MODEL_MIN_MAX(long)
RINGSCOPE_MODEL_MIN_MAX(unsigned long)
RINGSCOPE_MODEL_MIN_MAX(long long)
RINGSCOPE_MODEL_MIN_MAX(unsigned long long)
#undef RINGSCOPE_MODEL_MIN_MAX
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

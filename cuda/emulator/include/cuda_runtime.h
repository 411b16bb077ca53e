// Stands in for NVIDIA's header when the host compiler compiles the CUDA layer: CUDA C++'s
// keywords, the device functions that our kernels call, and the runtime API, under CUDA's names. It
// omits on purpose, so that using them fails to compile: __shared__ (use shared_memory()),
// <<<...>>> (use launch()).
#pragma once

// Included before the macros below, because glibc declares functions with some of these names.
#include <math.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda/emulator/builtin.h"
#include "cuda/emulator/runtime_api.h"
#include "cuda/emulator/simt.h"

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

}  // namespace ringscope::cuda::model

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

inline int __any_sync(unsigned mask, int predicate) {
  const unsigned char* all =
      ringscope::cuda::model::warp_exchange("__any_sync", &predicate, sizeof(predicate), mask);
  bool any = false;
  for (int lane = 0; lane < 32; ++lane) {
    int its;
    std::memcpy(&its, all + lane * sizeof(its), sizeof(its));
    any = any || ((mask >> lane & 1u) != 0 && its != 0);
  }
  return any;
}

template <class T>
T atomicAdd(T* address, T value) {
  return std::atomic_ref<T>(*address).fetch_add(value);
}

inline int min(int a, int b) { return b < a ? b : a; }
inline int max(int a, int b) { return a < b ? b : a; }

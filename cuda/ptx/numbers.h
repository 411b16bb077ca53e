// The numbers of the tensor-core kernels: pairs of 16-bit values in a register, exp2 as the special
// function unit computes it, and sums in memory. Element is bf16 or f16 of core/base/dtype.h.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "core/base/dtype.h"

#ifdef RINGSCOPE_MODEL
#include <cmath>
#endif

namespace ringscope::cuda::ptx {

template <class Element>
inline constexpr bool is_half_type = std::is_same_v<Element, bf16> || std::is_same_v<Element, f16>;

// Return 2^x, relative error below 2^-22. Subnormal arguments and results are zero; 2^-inf = 0.
__device__ __forceinline__ float exp2_approx(float x) {
#ifdef RINGSCOPE_MODEL
  return std::exp2(x);
#else
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

// Round two values to nearest even and pack them; `low` goes to the lower half, the lower address.
template <class Element>
__device__ __forceinline__ std::uint32_t pack(float low, float high) {
  static_assert(is_half_type<Element>);
#ifdef RINGSCOPE_MODEL
  return Element::from_float(low).bits | std::uint32_t{Element::from_float(high).bits} << 16;
#else
  std::uint32_t result;
  if constexpr (std::is_same_v<Element, bf16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
#endif
}

// Add four values to neighbours in global memory, 16 bytes aligned, as one instruction where there is one
// (compute capability 9.0 and later). It is `red`, because atomicAdd becomes an instruction with a result
// even where nobody uses it.
__device__ __forceinline__ void add_to_memory(float* four, float4 values) {
#if defined(RINGSCOPE_MODEL)
  atomicAdd(four, values.x);
  atomicAdd(four + 1, values.y);
  atomicAdd(four + 2, values.z);
  atomicAdd(four + 3, values.w);
#elif __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(four), "f"(values.x),
               "f"(values.y), "f"(values.z), "f"(values.w)
               : "memory");
#else
  asm volatile(
      "red.global.add.f32 [%0], %1;\n"
      "red.global.add.f32 [%0 + 4], %2;\n"
      "red.global.add.f32 [%0 + 8], %3;\n"
      "red.global.add.f32 [%0 + 12], %4;" ::"l"(four),
      "f"(values.x), "f"(values.y), "f"(values.z), "f"(values.w)
      : "memory");
#endif
}

}  // namespace ringscope::cuda::ptx

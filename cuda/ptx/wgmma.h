// WGMMA: the four warps of a warpgroup together compute D (64 x N, f32, spread over the registers
// of the 128 threads) += A (64 x 16) B (16 x N). B comes from shared memory, A from shared memory
// or from registers. The products run asynchronously while the threads go on:
//
//   wgmma_fence();           registers written so far (D, and A from registers) are ready
//   wgmma_shared<..>(..);    any number of products
//   wgmma_commit();          they form one group
//   ..                       nobody may touch D, A's registers or the operands' memory
//   wgmma_wait<k>();         all groups but the k youngest are done
//
// ptxas hoists a wait as far as it can within branch-free code, past arithmetic that was meant to
// run under the products. Code that branches, like barrier_wait, holds it back.
//
// All 128 threads execute all of it with the same descriptors. cuda/kernels/hopper_layout.h
// describes the descriptors and which thread holds which elements.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "core/base/dtype.h"
#include "cuda/ptx/either.h"

namespace ringscope::cuda::ptx {

// Which dimension of an operand is contiguous in shared memory: K, the one summed over (each row of
// A or column of B is contiguous), or the other one (A's rows M, B's columns N).
enum class Major { k, mn };

__device__ __forceinline__ void wgmma_fence() {
  RINGSCOPE_EITHER(model::wgmma_fence(), RINGSCOPE_PTX("wgmma.fence.sync.aligned;"));
}

__device__ __forceinline__ void wgmma_commit() {
  RINGSCOPE_EITHER(model::wgmma_commit(), RINGSCOPE_PTX("wgmma.commit_group.sync.aligned;"));
}

template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  static_assert(0 <= kPending && kPending <= 7);
  RINGSCOPE_EITHER(model::wgmma_wait(kPending),
                   asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending)
                                : "memory"));
}

// Keep the compiler from moving computation or reads of these values across this place. Emits no
// instruction.
template <int kCount>
__device__ __forceinline__ void pin([[maybe_unused]] float (&values)[kCount]) {
#ifndef RINGSCOPE_MODEL
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
#endif
}

// Call it after a wait, for each accumulator that is read or changed from then on.
template <int kCount>
__device__ __forceinline__ void wgmma_done(float (&d)[kCount]) {
  pin(d);
}

#ifndef RINGSCOPE_MODEL

// Operands of an asm statement: d[] as %0, %1, ... in braces, and their bindings.
#define RINGSCOPE_R8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define RINGSCOPE_R16 RINGSCOPE_R8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define RINGSCOPE_R32 \
  RINGSCOPE_R16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define RINGSCOPE_R64                                                                            \
  RINGSCOPE_R32                                                                                  \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, " \
  "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define RINGSCOPE_R88                                                                            \
  RINGSCOPE_R64                                                                                  \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, " \
  "%82, %83, %84, %85, %86, %87"
#define RINGSCOPE_R96 RINGSCOPE_R88 ", %88, %89, %90, %91, %92, %93, %94, %95"

#define RINGSCOPE_EIGHT(i)                                                                    \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define RINGSCOPE_F8 RINGSCOPE_EIGHT(0)
#define RINGSCOPE_F16 RINGSCOPE_EIGHT(0), RINGSCOPE_EIGHT(8)
#define RINGSCOPE_F32 RINGSCOPE_F16, RINGSCOPE_EIGHT(16), RINGSCOPE_EIGHT(24)
#define RINGSCOPE_F64 \
  RINGSCOPE_F32, RINGSCOPE_EIGHT(32), RINGSCOPE_EIGHT(40), RINGSCOPE_EIGHT(48), RINGSCOPE_EIGHT(56)
#define RINGSCOPE_F88 RINGSCOPE_F64, RINGSCOPE_EIGHT(64), RINGSCOPE_EIGHT(72), RINGSCOPE_EIGHT(80)
#define RINGSCOPE_F96 RINGSCOPE_F88, RINGSCOPE_EIGHT(88)

// One instruction for N columns and COUNT = N/2 accumulators. The inputs' operand numbers follow.
// `accumulate` is the predicate scale-d; without it D = A B.
#define RINGSCOPE_WGMMA_SHARED(N, TYPE, COUNT, A, B, ACC, TRANS_A, TRANS_B)                \
  asm volatile("{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %" #ACC                 \
               ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE       \
               " {" RINGSCOPE_R##COUNT "}, %" #A ", %" #B ", accumulate, 1, 1, %" #TRANS_A \
                                       ", %" #TRANS_B ";\n}"                               \
               : RINGSCOPE_F##COUNT                                                        \
               : "l"(a), "l"(b), "r"(int{accumulate}), "n"(int{kMajorA == Major::mn}),     \
                 "n"(int{kMajorB == Major::mn}))

#define RINGSCOPE_WGMMA_REGISTERS(N, TYPE, COUNT, A0, A1, A2, A3, B, ACC, TRANS_B)         \
  asm volatile("{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %" #ACC                 \
               ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE       \
               " {" RINGSCOPE_R##COUNT "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B \
                                       ", accumulate, 1, 1, %" #TRANS_B ";\n}"             \
               : RINGSCOPE_F##COUNT                                                        \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int{accumulate}), \
                 "n"(int{kMajorB == Major::mn}))

// Every size that kernels use: FORM(N, type, N/2, then the operand numbers from N/2 on).
#define RINGSCOPE_WGMMA_SIZES(FORM, TYPE)                                         \
  if constexpr (kColumns == 16) FORM(16, TYPE, 8, 8, 9, 10, 11, 12, 13, 14);      \
  if constexpr (kColumns == 32) FORM(32, TYPE, 16, 16, 17, 18, 19, 20, 21, 22);   \
  if constexpr (kColumns == 64) FORM(64, TYPE, 32, 32, 33, 34, 35, 36, 37, 38);   \
  if constexpr (kColumns == 128) FORM(128, TYPE, 64, 64, 65, 66, 67, 68, 69, 70); \
  if constexpr (kColumns == 176) FORM(176, TYPE, 88, 88, 89, 90, 91, 92, 93, 94); \
  if constexpr (kColumns == 192) FORM(192, TYPE, 96, 96, 97, 98, 99, 100, 101, 102)

#define RINGSCOPE_WGMMA_SHARED_7(N, TYPE, COUNT, A, B, ACC, TRANS_A, TRANS_B, UNUSED_1, UNUSED_2) \
  RINGSCOPE_WGMMA_SHARED(N, TYPE, COUNT, A, B, ACC, TRANS_A, TRANS_B)

#endif

template <int kColumns>
inline constexpr bool kIsWgmmaSize = kColumns == 16 || kColumns == 32 || kColumns == 64 ||
                                     kColumns == 128 || kColumns == 176 || kColumns == 192;

// Compute D = A B (+ D when `accumulate`) with both operands in shared memory, given by their
// descriptors. T is bf16 or f16.
template <class T, int kColumns, Major kMajorA = Major::k, Major kMajorB = Major::k>
__device__ __forceinline__ void wgmma_shared(float (&d)[kColumns / 2], std::uint64_t a,
                                             std::uint64_t b, bool accumulate) {
  static_assert(std::is_same_v<T, bf16> || std::is_same_v<T, f16>);
  static_assert(kIsWgmmaSize<kColumns>);
#ifdef RINGSCOPE_MODEL
  model::wgmma({std::is_same_v<T, bf16>, kColumns, kMajorA == Major::mn, kMajorB == Major::mn,
                accumulate, d, nullptr, a, b});
#else
  if constexpr (std::is_same_v<T, bf16>) {
    RINGSCOPE_WGMMA_SIZES(RINGSCOPE_WGMMA_SHARED_7, "bf16");
  } else {
    RINGSCOPE_WGMMA_SIZES(RINGSCOPE_WGMMA_SHARED_7, "f16");
  }
#endif
}

// Likewise, with A from registers: a[0..3] hold pairs of 16-bit elements, the lower column in the
// lower half. They must stay unchanged until the product has been waited for.
template <class T, int kColumns, Major kMajorB = Major::k>
__device__ __forceinline__ void wgmma_registers(float (&d)[kColumns / 2],
                                                const std::uint32_t (&a)[4], std::uint64_t b,
                                                bool accumulate) {
  static_assert(std::is_same_v<T, bf16> || std::is_same_v<T, f16>);
  static_assert(kIsWgmmaSize<kColumns>);
#ifdef RINGSCOPE_MODEL
  model::wgmma(
      {std::is_same_v<T, bf16>, kColumns, false, kMajorB == Major::mn, accumulate, d, a, 0, b});
#else
  if constexpr (std::is_same_v<T, bf16>) {
    RINGSCOPE_WGMMA_SIZES(RINGSCOPE_WGMMA_REGISTERS, "bf16");
  } else {
    RINGSCOPE_WGMMA_SIZES(RINGSCOPE_WGMMA_REGISTERS, "f16");
  }
#endif
}

// Store four 8 x 8 squares of 16-bit values, transposed, for WGMMA to read. d[i] has columns
// 2 (lane % 4) and + 1 of row lane / 4 of square i; lanes 8 i .. 8 i + 7 pass the addresses in shared
// memory of its columns (16 bytes each, aligned to 16). A fence_proxy_async follows.
__device__ __forceinline__ void stmatrix_x4_trans(void* shared_column,
                                                  const std::uint32_t (&d)[4]) {
  RINGSCOPE_EITHER(
      model::stmatrix_x4_trans(shared_column, d),
      asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                       shared_address(shared_column)),
                   "r"(d[0]), "r"(d[1]), "r"(d[2]), "r"(d[3])
                   : "memory"));
}

}  // namespace ringscope::cuda::ptx

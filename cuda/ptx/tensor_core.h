// Wraps the instructions of sm_80 for tensor cores: asynchronous copies, ldmatrix and mma.sync.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/ptx/either.h"
#include "cuda/ptx/numbers.h"

namespace ringscope::cuda::ptx {

// ---
// cp.async (sm_80) copies from global to shared memory, bypassing the registers, while the thread
// computes. A thread collects its copies in groups and waits for the older groups. It sees what
// other threads of the block copied only after a barrier that follows their waits.

// Copy 16 bytes, or write 16 zero bytes when not `valid`. In that case global memory is not read,
// and `global` may lie outside any allocation. Both pointers are multiples of 16.
__device__ __forceinline__ void cp_async_16(void* shared, const void* global, bool valid) {
#ifdef RINGSCOPE_MODEL
  model::cp_async_16(shared, global, valid);
#else
  const auto target = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(global),
               "r"(valid ? 16 : 0)
               : "memory");
#endif
}

// Close the group of the copies since the last commit. The group may be empty.
__device__ __forceinline__ void cp_async_commit() {
  RINGSCOPE_EITHER(model::cp_async_commit(), RINGSCOPE_PTX("cp.async.commit_group;"));
}

// Wait until at most the newest `Pending` groups of this thread are still in flight.
template <int Pending>
__device__ __forceinline__ void cp_async_wait() {
  RINGSCOPE_EITHER(model::cp_async_wait(Pending),
                   asm volatile("cp.async.wait_group %0;" ::"n"(Pending)
                                : "memory"));
}

// ---
// The warp-wide matrix instructions of sm_80. ldmatrix loads 8 x 8 squares of 16-bit values from
// shared memory in the layout that mma.sync wants, and mma.sync multiplies.
// cuda/kernels/mma_layout.h says which lane holds what.

// Load four squares. Lanes 8 i .. 8 i + 7 pass the addresses of the rows of square i (16 bytes
// each, aligned to 16). r[i] becomes columns 2 (lane % 4) and + 1 of row lane / 4 of square i.
__device__ __forceinline__ void ldmatrix_x4(std::uint32_t (&r)[4], const void* shared_row) {
#ifdef RINGSCOPE_MODEL
  model::ldmatrix_x4(r, shared_row, false);
#else
  const auto row = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared_row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
#endif
}

// Likewise, with every square transposed: r[i] is rows 2 (lane % 4) and + 1 of column lane / 4.
__device__ __forceinline__ void ldmatrix_x4_trans(std::uint32_t (&r)[4], const void* shared_row) {
#ifdef RINGSCOPE_MODEL
  model::ldmatrix_x4(r, shared_row, true);
#else
  const auto row = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared_row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
#endif
}

// Compute d += a b for a: 16 x 16, b: 16 x 8, d: 16 x 8 in f32, four values a lane.
template <class Element>
__device__ __forceinline__ void mma_m16n8k16(float* d, const std::uint32_t (&a)[4],
                                             std::uint32_t b0, std::uint32_t b1) {
  static_assert(is_half_type<Element>);
#ifdef RINGSCOPE_MODEL
  model::mma_m16n8k16(d, a, b0, b1, std::is_same_v<Element, bf16> ? DType::bf16 : DType::f16);
#else
  if constexpr (std::is_same_v<Element, bf16>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

}  // namespace ringscope::cuda::ptx

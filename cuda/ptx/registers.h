// Saves a kernel registers, by rereading indices and by moving registers between warpgroups.
#pragma once

#include <cuda_runtime.h>

#include "cuda/ptx/either.h"

namespace ringscope::cuda::ptx {

// ---
// Rereads thread and block indices. The compiler keeps what it derives from threadIdx.x in
// registers as long as anything needs it, so a kernel that is short of registers reads it anew.

// Return threadIdx.x as a value that the compiler does not know to equal any other.
__device__ __forceinline__ int thread_index() {
#ifdef RINGSCOPE_MODEL
  return static_cast<int>(threadIdx.x);
#else
  int index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return index;
#endif
}

// Likewise return blockIdx.x.
__device__ __forceinline__ int block_index() {
#ifdef RINGSCOPE_MODEL
  return static_cast<int>(blockIdx.x);
#else
  int index;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(index));
  return index;
#endif
}

// ---
// Moves registers between the warpgroups of a block. A kernel starts with the same number for every
// thread. A warpgroup that only starts copies gives most of its registers away, and the computing
// ones take them. The compiler obeys only if the kernel has __launch_bounds__(threads, 1) and every
// role is one branch of a single if/else.

// Reduce the registers to `kCount` per thread (a multiple of 8 from 24 to 256). All 128 threads of
// a warpgroup call it.
template <int kCount>
__device__ __forceinline__ void release_registers() {
  static_assert(kCount % 8 == 0 && 24 <= kCount && kCount <= 256);
  RINGSCOPE_EITHER(model::set_max_registers(kCount, false),
                   asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount)));
}

// Likewise raise them to `kCount` per thread. Waits until others have released enough.
template <int kCount>
__device__ __forceinline__ void claim_registers() {
  static_assert(kCount % 8 == 0 && 24 <= kCount && kCount <= 256);
  RINGSCOPE_EITHER(model::set_max_registers(kCount, true),
                   asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount)));
}

}  // namespace ringscope::cuda::ptx

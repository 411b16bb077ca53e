// Moves registers between the warpgroups of a block. A kernel starts with the same number for every
// thread. A warpgroup that only starts copies gives most of its registers away, and the computing
// ones take them. The compiler obeys only if the kernel has __launch_bounds__(threads, 1) and every
// role is one branch of a single if/else.
#pragma once

#include <cuda_runtime.h>

#ifdef RINGSCOPE_MODEL
#include "cuda/model/hopper.h"
#endif

namespace ringscope::cuda::ptx {

// Reduce the registers to `kCount` per thread (a multiple of 8 from 24 to 256). All 128 threads of
// a warpgroup call it.
template <int kCount>
__device__ __forceinline__ void release_registers() {
  static_assert(kCount % 8 == 0 && 24 <= kCount && kCount <= 256);
#ifdef RINGSCOPE_MODEL
  model::set_max_registers(kCount, false);
#else
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
#endif
}

// Likewise raise them to `kCount` per thread. Waits until others have released enough.
template <int kCount>
__device__ __forceinline__ void claim_registers() {
  static_assert(kCount % 8 == 0 && 24 <= kCount && kCount <= 256);
#ifdef RINGSCOPE_MODEL
  model::set_max_registers(kCount, true);
#else
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
#endif
}

}  // namespace ringscope::cuda::ptx

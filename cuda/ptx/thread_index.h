// Rereads thread and block indices. The compiler keeps what it derives from threadIdx.x in
// registers as long as anything needs it, so a kernel that is short of registers reads it anew.
#pragma once

#include <cuda_runtime.h>

namespace ringscope::cuda::ptx {

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

}  // namespace ringscope::cuda::ptx

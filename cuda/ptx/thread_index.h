// Who am I, asked again. What a compiler derives from threadIdx.x it keeps in registers for as long
// as anything needs it; a kernel whose loop needs nearly all of them asks anew where it uses it.
#pragma once

#include <cuda_runtime.h>

namespace ringscope::cuda::ptx {

// threadIdx.x, as a value that the compiler does not know to be the same as any other.
__device__ __forceinline__ int thread_index() {
#ifdef RINGSCOPE_MODEL
  return static_cast<int>(threadIdx.x);
#else
  int index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return index;
#endif
}

// The same of blockIdx.x.
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

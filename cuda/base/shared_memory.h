// Presents a block's dynamic shared memory as one struct. Kernels declare no other shared memory,
// so the host model can hand out one poisoned buffer per block.
#pragma once

#include <cuda_runtime.h>

#ifdef RINGSCOPE_MODEL
#include "cuda/model/simt.h"
#endif

namespace ringscope::cuda {

// Return the uninitialised memory, aligned to 1024 bytes as swizzled TMA boxes demand.
template <class T>
__device__ __forceinline__ T& shared_memory() {
#ifdef RINGSCOPE_MODEL
  return *reinterpret_cast<T*>(model::shared_bytes());
#else
  extern __shared__ __align__(1024) unsigned char bytes[];
  return *reinterpret_cast<T*>(bytes);
#endif
}

}  // namespace ringscope::cuda

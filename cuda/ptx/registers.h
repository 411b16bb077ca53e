// Saves a kernel registers, by rereading indices and by moving registers between warpgroups. And
// reads the registers that say where and when a thread runs.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

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

// Return the number of the multiprocessor that runs this block.
__device__ __forceinline__ int multiprocessor() {
#ifdef RINGSCOPE_MODEL
  return model::multiprocessor();
#else
  int number;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  return number;
#endif
}

// Return how many clocks this multiprocessor has counted. The model counts the steps of its threads.
__device__ __forceinline__ std::uint64_t kernel_clocks() {
#ifdef RINGSCOPE_MODEL
  return model::steps();
#else
  std::uint64_t clocks;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(clocks)::"memory");
  return clocks;
#endif
}

// Return the time of a clock that all multiprocessors share, in nanoseconds; a GPU may move it on in
// larger steps. The model counts the steps of its threads instead, from 0 on each multiprocessor.
__device__ __forceinline__ std::uint64_t kernel_time() {
#ifdef RINGSCOPE_MODEL
  return model::steps();
#else
  std::uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time)::"memory");
  return time;
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

// cp.async (sm_80) copies from global to shared memory, bypassing the registers, while the thread
// computes. A thread collects its copies in groups and waits for the older groups. It sees what
// other threads of the block copied only after a barrier that follows their waits.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#ifdef RINGSCOPE_MODEL
#include "cuda/model/tensor_core.h"
#endif

namespace ringscope::cuda::ptx {

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
#ifdef RINGSCOPE_MODEL
  model::cp_async_commit();
#else
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Wait until at most the newest `Pending` groups of this thread are still in flight.
template <int Pending>
__device__ __forceinline__ void cp_async_wait() {
#ifdef RINGSCOPE_MODEL
  model::cp_async_wait(Pending);
#else
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#endif
}

}  // namespace ringscope::cuda::ptx

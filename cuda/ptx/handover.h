// How a block hands device memory to another block of the same kernel: it writes by bulk copies, tells so
// by a turn (pass_memory_turn) or a count, and the other one waits (await_memory_turn) and copies.
//
// Copies read and write through another proxy than loads and stores do, so a thread that has waited
// fences before it copies. What was copied to memory needs no fence before the turn is passed: the end of
// a bulk copy (bulk_wait) is one. All of it has the scope of one GPU. Blocks of several GPUs would need
// .sys in place of .gpu, here and in await_memory_turn and pass_memory_turn.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/ptx/barrier.h"

namespace ringscope::cuda::ptx {

// Let the copies that this thread asks for from now on come after what it has waited for.
__device__ __forceinline__ void fence_proxy_async_global() {
  RINGSCOPE_EITHER(model::fence_proxy_async_global(), RINGSCOPE_PTX("fence.proxy.async.global;"));
}

// Add 1 to a count that await_memory_turn waits for. What this thread knows of comes before it.
__device__ __forceinline__ void count_memory_turn(int* count) {
  RINGSCOPE_EITHER(model::count_at_turn(count),
                   asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(count)
                                : "memory"));
}

// Copy `bytes` bytes from shared to device memory: all multiples of 16. It is committed and waited for as
// tma_add is.
__device__ __forceinline__ void bulk_store(void* to, const void* from, std::uint32_t bytes) {
  RINGSCOPE_EITHER(
      model::bulk_store(to, from, bytes),
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                   "r"(shared_address(from)), "r"(bytes)
                   : "memory"));
}

}  // namespace ringscope::cuda::ptx

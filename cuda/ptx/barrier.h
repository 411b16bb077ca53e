// Barriers between threads and copies. An mbarrier lies in shared memory and moves from phase to
// phase. A phase ends when all expected arrivals have happened and all announced bytes of
// asynchronous copies have landed. A waiting thread names the parity of the phase whose end it
// waits for: 0 for the first, then 1, 0, 1, … A fresh barrier counts the phase before the first
// (parity 1) as over, so a producer passes a ring of empty buffers the first time.
//
// A named barrier (1 to 15; 0 is __syncthreads) serves some of a block's warps. A thread may
// announce its arrival and go on.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/ptx/either.h"
#include "cuda/ptx/watchdog.h"

namespace ringscope::cuda::ptx {

// An opaque mbarrier object. Lives in shared memory only.
struct alignas(8) Barrier {
  std::uint64_t bits;
};

// Return the address of an object in shared memory in the form that instructions take.
__device__ __forceinline__ std::uint32_t shared_address(const void* in_shared) {
#ifdef RINGSCOPE_MODEL
  return model::shared_address(in_shared);
#else
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(in_shared));
#endif
}

// Initialise the barrier so that each phase takes `arrivals` arrivals. One thread calls it, before
// any use, followed by fence_barrier_init in that thread and a __syncthreads.
__device__ __forceinline__ void barrier_init(Barrier& barrier, int arrivals) {
  RINGSCOPE_EITHER(
      model::mbarrier_init(&barrier.bits, arrivals),
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)),
                   "r"(arrivals)
                   : "memory"));
}

// Make initialised barriers visible to the copy engine.
__device__ __forceinline__ void fence_barrier_init() {
  RINGSCOPE_EITHER(model::fence_barrier_init(),
                   RINGSCOPE_PTX("fence.mbarrier_init.release.cluster;");
                   RINGSCOPE_PTX("fence.proxy.async.shared::cta;"));
}

// Arrive once.
__device__ __forceinline__ void barrier_arrive(Barrier& barrier) {
  RINGSCOPE_EITHER(
      model::mbarrier_arrive(&barrier.bits, 0),
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier))
                   : "memory"));
}

// Announce `bytes` that asynchronous copies will bring in this phase, then arrive once.
__device__ __forceinline__ void barrier_arrive_expecting(Barrier& barrier, std::uint32_t bytes) {
  RINGSCOPE_EITHER(model::mbarrier_arrive(&barrier.bits, bytes),
                   asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                                    shared_address(&barrier)),
                                "r"(bytes)
                                : "memory"));
}

// Wait until the phase of that parity is over. After it, what was written before the arrivals and
// what the copies brought is visible. A wait that does not end ends the kernel (watchdog.h).
__device__ __forceinline__ void barrier_wait(Barrier& barrier, std::uint32_t parity) {
#ifdef RINGSCOPE_MODEL
  model::mbarrier_wait(&barrier.bits, parity);
#else
  asm volatile(RINGSCOPE_WAIT("mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n")::"r"(
                   shared_address(&barrier)),
               "r"(parity), "l"(&hang_record)
               : "memory");
#endif
}

// Set a place in shared memory that the copy engine or WGMMA will read, after a fence_proxy_async.
template <class T>
__device__ __forceinline__ void store_for_async(T& place, const T& value) {
  place = value;
#ifdef RINGSCOPE_MODEL
  model::stored_for_async(&place, sizeof(T));
#endif
}

// Order this thread's ordinary stores to shared memory before later reads by the copy engine and by
// WGMMA. Each writing thread calls it before the barrier that notifies the reader.
__device__ __forceinline__ void fence_proxy_async() {
  RINGSCOPE_EITHER(model::fence_proxy_async(), RINGSCOPE_PTX("fence.proxy.async.shared::cta;"));
}

// Blocks take turns at device memory: wait until *turn is `value`, which the block before sets by
// pass_memory_turn after its work. The wait ends as that of barrier_wait does, with 0 for a barrier.
__device__ __forceinline__ void await_memory_turn(const int* turn, int value) {
#ifdef RINGSCOPE_MODEL
  model::await_turn(turn, value);
#else
  asm volatile(RINGSCOPE_WAIT("ld.acquire.gpu.global.u32 value, [%3];\n"
                              "setp.eq.u32 done, value, %1;\n")::"r"(0),
               "r"(value), "l"(&hang_record), "l"(turn)
               : "memory");
#endif
}
__device__ __forceinline__ void pass_memory_turn(int* turn, int value) {
  RINGSCOPE_EITHER(model::pass_turn(turn, value),
                   asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(turn), "r"(value)
                                : "memory"));
}
// Let this thread's bulk additions from now on come after those of whoever had a turn before it.
__device__ __forceinline__ void order_bulk_additions() {
#ifndef RINGSCOPE_MODEL
  RINGSCOPE_PTX("fence.proxy.async.global;");
#endif
}

// ---

// Wait until `threads` threads (a multiple of 32, in whole warps) have arrived at barrier `id`.
// Threads that called named_barrier_arrive count.
__device__ __forceinline__ void named_barrier_sync(int id, int threads) {
  RINGSCOPE_EITHER(model::named_barrier_sync(id, threads),
                   asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads)
                                : "memory"));
}

// Arrive at barrier `id` without waiting.
__device__ __forceinline__ void named_barrier_arrive(int id, int threads) {
  RINGSCOPE_EITHER(model::named_barrier_arrive(id, threads),
                   asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads)
                                : "memory"));
}

}  // namespace ringscope::cuda::ptx

// One thread asks the copy engine (TMA) for a box of a tensor in device memory. The engine writes
// it to shared memory, swizzled as the tensor map says, with zeros for elements outside the tensor.
// An mbarrier counts the box's bytes (zeros included) when they have landed.
//
// Coordinates count elements, innermost first, and may lie outside the tensor. The tensor map is a
// `const __grid_constant__ TensorMap` parameter of the kernel.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/base/tensor_map.h"
#include "cuda/ptx/barrier.h"

namespace ringscope::cuda::ptx {

// Fetch the tensor map itself ahead of its first use.
__device__ __forceinline__ void tma_prefetch([[maybe_unused]] const TensorMap& map) {
#ifndef RINGSCOPE_MODEL
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#endif
}

// Copy the box of a 3-D tensor map at {x, y, z} to shared memory at `to`, which is aligned to 128
// bytes, or to 1024 with the 128-byte swizzle.
__device__ __forceinline__ void tma_load(void* to, const TensorMap& map, int x, int y, int z,
                                         Barrier& full) {
  RINGSCOPE_EITHER(
      model::tma_load(to, map, {x, y, z, 0}, 3, &full.bits),
      asm volatile(
          "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
          " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared_address(to)),
          "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(&full))
          : "memory"));
}

// Likewise for a 4-D tensor map.
__device__ __forceinline__ void tma_load(void* to, const TensorMap& map, int x, int y, int z, int w,
                                         Barrier& full) {
  RINGSCOPE_EITHER(
      model::tma_load(to, map, {x, y, z, w}, 4, &full.bits),
      asm volatile(
          "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
          " [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(shared_address(to)),
          "l"(&map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(shared_address(&full))
          : "memory"));
}

// Copy `bytes` bytes that lie in device memory as they will in shared memory: all multiples of 16.
__device__ __forceinline__ void bulk_load(void* to, const void* from, std::uint32_t bytes,
                                          Barrier& full) {
  RINGSCOPE_EITHER(model::bulk_load(to, from, bytes, &full.bits),
                   asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                                "[%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
                                "l"(from), "r"(bytes), "r"(shared_address(&full))
                                : "memory"));
}

// Add the box of f32 in shared memory at `from`, aligned and swizzled as tma_load leaves one, to that of
// a 4-D tensor map at {x, y, z, w}, or store it there. Elements outside the tensor are left out. A thread
// commits its additions and waits until shared memory has been read, or until the sums are in memory.
__device__ __forceinline__ void tma_store(const TensorMap& map, const void* from, int x, int y,
                                          int z, int w) {
  RINGSCOPE_EITHER(model::tma_store(map, from, {x, y, z, w}, false),
                   asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group"
                                " [%0, {%1, %2, %3, %4}], [%5];" ::"l"(&map),
                                "r"(x), "r"(y), "r"(z), "r"(w), "r"(shared_address(from))
                                : "memory"));
}
__device__ __forceinline__ void tma_add(const TensorMap& map, const void* from, int x, int y, int z,
                                        int w) {
  RINGSCOPE_EITHER(
      model::tma_store(map, from, {x, y, z, w}, true),
      asm volatile("cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group"
                   " [%0, {%1, %2, %3, %4}], [%5];" ::"l"(&map),
                   "r"(x), "r"(y), "r"(z), "r"(w), "r"(shared_address(from))
                   : "memory"));
}
__device__ __forceinline__ void bulk_commit() {
  RINGSCOPE_EITHER(model::bulk_commit(), RINGSCOPE_PTX("cp.async.bulk.commit_group;"));
}
__device__ __forceinline__ void bulk_wait_read() {
  RINGSCOPE_EITHER(model::bulk_wait(true), RINGSCOPE_PTX("cp.async.bulk.wait_group.read 0;"));
}
// Once they are, a thread that this one tells so (pass_memory_turn) finds them: the end of a bulk addition
// is followed by a proxy fence of its own.
__device__ __forceinline__ void bulk_wait() {
  RINGSCOPE_EITHER(model::bulk_wait(false), RINGSCOPE_PTX("cp.async.bulk.wait_group 0;"));
}

}  // namespace ringscope::cuda::ptx

// The model's side of what is Hopper's own (cuda/ptx/barrier.h, tma.h, wgmma.h, registers.h):
// mbarriers that count arrivals and bytes, the copy engine with its 128-byte swizzle, WGMMA that
// finds its operands in shared memory by their descriptors, and the block's registers. Written from
// the PTX ISA's definitions, not from the closed forms in cuda/kernels that it checks. Misuse is a
// ModelError. Called by threads of a running block.
#pragma once

#include <array>
#include <cstdint>

#include "cuda/model/tensor_map.h"

namespace ringscope::cuda::model {

// Place in the block's shared memory. Not 0 for its first byte: the device keeps some for itself.
std::uint32_t shared_address(const void* in_shared);

// `object`: 8 bytes in shared memory.
void mbarrier_init(std::uint64_t* object, int arrivals);
// Announces `expected_bytes`, then arrives. More arrivals in a phase than it takes are an error.
void mbarrier_arrive(std::uint64_t* object, std::uint32_t expected_bytes);
void mbarrier_wait(std::uint64_t* object, std::uint32_t parity);
void fence_barrier_init();

void named_barrier_sync(int id, int threads);
void named_barrier_arrive(int id, int threads);

// The copy engine and WGMMA see shared memory as it was when a thread last called this, and what
// copies brought since. (Less strict than a device, where each thread's fence is for its own stores
// alone.)
void fence_proxy_async();

// Copies when the schedule lets asynchronous effects happen, then counts the bytes at `object`.
void tma_load(void* to, const TensorMap& map, const std::array<int, 4>& at, int rank,
              std::uint64_t* object);

// One product, as seen by one thread. d: columns / 2 accumulators; a: 4 registers, or null when A
// comes from shared memory. Both must live until the product is waited for.
struct WgmmaProduct {
  bool bf16;  // or f16
  int columns;
  bool a_is_mn_major, b_is_mn_major;
  bool accumulate;
  float* d;
  const std::uint32_t* a;
  std::uint64_t a_descriptor, b_descriptor;
};

// Products happen at the wait that promises them, or when they are committed if the schedule is not
// async_late (and its order not ascending): operands are read and accumulators written then and at
// no other time. A product without a wgmma_fence since the last wait, threads that disagree about a
// product, an operand outside of shared memory, and a thread that ends without having waited are
// errors. Only operands with the 128-byte swizzle are modelled.
void wgmma_fence();
void wgmma(const WgmmaProduct& product);
void wgmma_commit();
void wgmma_wait(int pending);

// setmaxnreg by a warpgroup; claiming more waits for registers to be free. A block starts with
// 65536 of them, as many for every thread as the launch allows.
void set_max_registers(int count, bool more);

}  // namespace ringscope::cuda::model

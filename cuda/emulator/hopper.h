// Models Hopper's own features (cuda/ptx/barrier.h, tma.h, wgmma.h, registers.h): mbarriers that
// count arrivals and bytes, the copy engine with its 128-byte swizzle, WGMMA that finds its
// operands in shared memory by their descriptors, and the block's registers. The code follows the
// PTX ISA's definitions, not the closed forms in cuda/kernels that it checks. Misuse is a
// ModelError. Threads of a running block call it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "cuda/emulator/simt.h"
#include "cuda/emulator/tensor_map.h"

namespace ringscope::cuda::model {

// Return an address in the block's shared memory. Its first byte is not 0, as on a device.
std::uint32_t shared_address(const void* in_shared);

// `object` is 8 bytes in shared memory.
void mbarrier_init(std::uint64_t* object, int arrivals);
// Announce `expected_bytes`, then arrive. More arrivals than a phase takes are an error.
void mbarrier_arrive(std::uint64_t* object, std::uint32_t expected_bytes);
void mbarrier_wait(std::uint64_t* object, std::uint32_t parity);
void fence_barrier_init();

void named_barrier_sync(int id, int threads);
void named_barrier_arrive(int id, int threads);

// Note that this thread has written bytes that the copy engine or WGMMA will read, and let these see
// what it noted before, as it is now. They see nothing else but what copies bring.
void stored_for_async(const void* place, std::size_t bytes);
void fence_proxy_async();

// Copy when the schedule performs asynchronous effects, then count the bytes at `object`.
void tma_load(void* to, const TensorMap& map, const std::array<int, 4>& at, int rank,
              std::uint64_t* object);

// Copy `bytes` bytes, a multiple of 16, from device memory, as tma_load does.
void bulk_load(void* to, const void* from, std::uint32_t bytes, std::uint64_t* object);

// Add a box of f32 in shared memory to device memory, or store it there, or store `bytes` bytes, a
// multiple of 16. Once it is committed, the schedule reads it and, later, writes it; the waits are
// for either, of all that the thread committed.
void tma_store(const TensorMap& map, const void* from, const std::array<int, 4>& at, bool adds);
void bulk_store(void* to, const void* from, std::uint32_t bytes);
void bulk_commit();
void bulk_wait(bool only_read);

// Wait until *turn is `value`. What passes it on is a block that has begun, or another warp.
void await_turn(const int* turn, int value);
// Set *turn, or add 1 to it. The thread must have awaited the bulk writes that it committed.
void pass_turn(int* turn, int value);
void count_at_turn(int* turn);
// A thread that has awaited a turn copies from and to device memory only after it.
void fence_proxy_async_global();

// One product as one thread sees it. d has columns / 2 accumulators; a has 4 registers, or is null
// when A comes from shared memory. Both must live until the product has been waited for.
struct WgmmaProduct {
  bool bf16;  // otherwise f16
  int columns;
  bool a_is_mn_major, b_is_mn_major;
  bool accumulate;
  float* d;
  const std::uint32_t* a;
  std::uint64_t a_descriptor, b_descriptor;
};

// A product happens at the wait that guarantees it, or at the commit if the schedule is not
// async_late and its order is not ascending. Operands are read and accumulators written only then.
// Errors are a product without a wgmma_fence since the last wait, threads that disagree about a
// product, an operand outside shared memory, and a thread that ends without having waited. Only the
// 128-byte swizzle is modelled.
// stmatrix_x4_trans stores operands that other lanes hold, as ptx/wgmma.h says.
void stmatrix_x4_trans(void* shared_column, const std::uint32_t (&d)[4]);
void wgmma_fence();
void wgmma(const WgmmaProduct& product);
void wgmma_commit();
void wgmma_wait(int pending);

// Do setmaxnreg for a warpgroup. Claiming more waits until registers are free. A block starts with
// as many for every thread as 65536 allow in units of 8, and has no more than these.
void set_max_registers(int count, bool more);

// ---
// The state that the model of Hopper keeps for a running block and each of its threads.

// The address of the first byte of a block's shared memory.
inline constexpr std::uint32_t shared_window = 1024;

struct HopperBlock {
  std::vector<unsigned char> async_view;          // shared memory as copies and WGMMA see it
  std::vector<int> registers;                     // registers per thread, by warpgroup
  int pool = 0;                                   // sum of these at the start, and the most
  std::set<const std::uint64_t*> known_barriers;  // to the copy engine
};

// What is on its way from shared to device memory.
struct BulkWrite {
  std::function<void()> read, write;
  bool was_read = false, was_written = false;
  bool was_awaited = false;  // its thread has waited for either
};

// Lives to the end of the block, and keeps the block's state alive.
class HopperThread final : public ThreadState {
 public:
  void end() override;

  std::shared_ptr<HopperBlock> block;
  bool fenced = false;     // a wgmma_fence came since the last wait
  bool took_turn = false;  // and no fence_proxy_async_global came since
  std::vector<std::pair<std::size_t, std::size_t>> stored;  // for others, unfenced: place, bytes
  std::vector<const std::uint64_t*> made_barriers;          // unfenced
  std::vector<std::shared_ptr<BulkWrite>> open_writes, writes;  // not committed; committed
  std::vector<WgmmaProduct> open;
  std::deque<std::vector<WgmmaProduct>> groups;  // committed, oldest first; empty when done
};

// Return the running thread's state.
HopperThread& hopper_thread();

// Throw ModelError unless the bytes lie in shared memory and are aligned.
void check_shared(const void* begin, std::size_t bytes, std::size_t alignment, const char* what);

}  // namespace ringscope::cuda::model

// Step 12: the ring inside the kernel. Up to step 07, a launch computes one ring step, and the host has
// other engines copy blocks between launches. Here one launch computes the forward pass of a whole ring:
//
//   - Block b of the grid works for rank b / B. All blocks run at once (a cooperative launch), because
//     they wait for each other.
//   - A block attends as in step 07, with the ring steps as one more loop around its items. An item stays
//     with its block for the whole pass, so its state needs no handing over; it is carried in memory,
//     as between launches.
//   - One more warp copies: of the KV block that the rank before holds, it takes every B-th chunk (128
//     rows of a kv head) through shared memory to the rank's next slot. A chunk is a key tile. So a tile
//     is attended as soon as it has come, and no rank waits for a whole block.
//   - What connects ranks is the pair of barriers that connects a producer with consumers, one level up:
//     `full` tells that a chunk has come, `empty` that everybody is done with a slot: the B blocks that
//     attend it, and the B of the next rank that copy it onward.
//
// Nobody waits in a circle: whatever is waited for belongs to an earlier ring step, but for a chunk of
// this step, whose copy waits for earlier steps alone.
//
// On one GPU a peer's memory is this GPU's own. Between GPUs the flags need the scope .sys
// (ptx/handover.h), and each GPU a launch of its own, all of which run at once.
//
// m = row_max, l = row_sum, S = scores, P = exp(S - m), O = out_accum. hopper_tile.h has their registers.
#include <cstdint>

#include "cuda/base/launch.h"
#include "cuda/kernels/fused_ring.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/kernels/overlapped_tile.h"
#include "cuda/kernels/persistent_schedule.h"
#include "cuda/ptx/handover.h"
#include "cuda/ptx/registers.h"
#include "cuda/ptx/watchdog.h"

namespace ringscope::cuda {
namespace {

struct FusedArguments {
  FusedRing ring;
  float exponent_scale;
  int unused = 0;                    // no padding, as in the model's TensorMap
  HopperMaps maps[kMostFusedRanks];  // of K and V with all slots
  PersistentOrder items[kMostFusedRanks];
};

// One compiled instance. A thread that copies needs more registers than one that fetches.
template <class Element, int kHeadDim, int kValueDim>
struct FusedConfig : HopperConfig<Element, kHopperTiles[0].rows, kHopperTiles[0].keys, kHeadDim,
                                  kValueDim, kHeadDim == 64 ? 4 : 2> {
  static constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;
};

// A ring step of a rank. In shared memory, because the roles have no registers for it.
struct FusedStep : ForwardStep {
  int first_matrix = 0;       // of its slot, in the maps of K and V
  const int* full = nullptr;  // by chunk; null: all of it is there
  int* empty = nullptr;       // null: the slot is not used again
};

// At head_dim 192 tiles leave 11 KB.
template <class Config>
inline constexpr int kPieceBytes = Config::kHeadDim == 192 ? 4096 : 16384;
constexpr int kMaxFusedTiles = 1024;  // of rows, that are ordered by cost

template <class Config>
struct FusedStorage {
  HopperStorage<Config> tiles;
  alignas(128) unsigned char pieces[2][kPieceBytes<Config>];  // of a chunk, on its way
  ptx::Barrier piece_full[2];
  FusedStep steps[kMostFusedRanks];
  PersistentOrder items;
  std::uint16_t costs[kMaxFusedTiles];  // key tiles of each row tile, at all steps
  std::uint16_t order[kMaxFusedTiles];  // row tiles, longest first
};

__device__ __forceinline__ FusedStep step_of(const FusedRing& ring, int rank, int number) {
  const FusedRank& mine = ring.ranks[rank];
  const int slot = slot_of(number);
  FusedStep step{ring.step(rank, number)};
  step.shape.rows_k = ring.ranks[ring.owner(rank, number)].rows_k;
  step.first_matrix = slot * ring.matrices();
  if (slot > 0) step.full = mine.full + (slot - 1) * ring.chunks();
  if (slot > 0) step.empty = mine.empty + number;
  return step;
}

template <class Config>
__device__ __forceinline__ VisitingTile visiting(const FusedStep& step, int row_tile) {
  return VisitingTile(step.allowed_keys, step.shape.rows_q, Config::kRows, Config::kKeys, row_tile);
}

// Order the row tiles by what they cost in all steps, unless there are too many. All threads call it, and
// synchronise afterwards.
template <class Config>
__device__ __forceinline__ void order_tiles(FusedStorage<Config>& storage, int world_size) {
  const int row_tiles = storage.items.row_tiles, thread = static_cast<int>(threadIdx.x);
  if (row_tiles > kMaxFusedTiles) return;
#pragma unroll 1
  for (int t = thread; t < row_tiles; t += Config::kThreads) {
    int cost = 0;
    for (int number = 0; number < world_size; ++number)
      cost += visiting<Config>(storage.steps[number], t).key_tiles();
    storage.costs[t] = static_cast<std::uint16_t>(cost < 65535 ? cost : 65535);
  }
  __syncthreads();
#pragma unroll 1
  for (int t = thread; t < row_tiles; t += Config::kThreads)
    storage.order[place_by_cost(storage.costs, row_tiles, t)] = static_cast<std::uint16_t>(t);
}

// Call work(step, tile, batch, head) for the items of this block at every ring step, and then
// end_step(step).
template <class Config, class Work, class End>
__device__ __forceinline__ void for_each_item(const FusedStorage<Config>& storage, int world_size,
                                              int blocks, const Work& work, const End& end_step) {
  const int block = static_cast<int>(blockIdx.x) % blocks;
#pragma unroll 1
  for (int number = 0; number < world_size; ++number) {
    const FusedStep& step = storage.steps[number];
#pragma unroll 1
    for (int round = 0; round < rounds_of(storage.items.items, blocks); ++round) {
      const int item = item_of(block, blocks, round);
      if (item >= storage.items.items) continue;
      const PersistentItem at = storage.items.at(
          item, storage.items.row_tiles <= kMaxFusedTiles ? storage.order : nullptr);
      work(step, visiting<Config>(step, at.row_tile), at.matrix / step.shape.heads,
           at.matrix % step.shape.heads);
    }
    end_step(step);
  }
}

// Copy `bytes` bytes, whole rows, through two pieces of shared memory: the next one comes while one
// leaves. One thread calls it, and waits for the writes.
template <class Config>
__device__ __forceinline__ void copy_rows(FusedStorage<Config>& storage, unsigned char* to,
                                          const unsigned char* from, int bytes, StagePlace<2>& at) {
  constexpr int kBytes = kPieceBytes<Config>;
  const auto size_at = [&](int begin) { return min(kBytes, bytes - begin); };
  const auto load = [&](int begin, int stage) {
    ptx::barrier_arrive_expecting(storage.piece_full[stage], size_at(begin));
    ptx::bulk_load(storage.pieces[stage], from + begin, size_at(begin), storage.piece_full[stage]);
  };
  load(0, at.stage);
#pragma unroll 1
  for (int begin = 0; begin < bytes; begin += kBytes) {
    if (begin + kBytes < bytes) load(begin + kBytes, at.stage ^ 1);
    ptx::barrier_wait(storage.piece_full[at.stage], at.parity);
    ptx::bulk_store(to + begin, storage.pieces[at.stage], size_at(begin));
    ptx::bulk_commit();
    ptx::bulk_wait_read();
    at.advance();
  }
}

// Bring this block's chunks of all KV blocks from the rank before. One thread does.
template <class Config>
__device__ __forceinline__ void copy_chunks(FusedStorage<Config>& storage, const FusedRing& ring,
                                            int rank) {
  const FusedRank& mine = ring.ranks[rank];
  const FusedRank& before = ring.ranks[rank == 0 ? ring.world_size - 1 : rank - 1];
  StagePlace<2> at;
#pragma unroll 1
  for (int number = 1; number < ring.world_size; ++number) {
    const int slot = slot_of(number), slot_before = slot_of(number - 1);
    if (number > 2) ptx::await_memory_turn(mine.empty + number - 2, 2 * ring.blocks);
#pragma unroll 1
    for (int chunk = static_cast<int>(blockIdx.x) % ring.blocks; chunk < ring.chunks();
         chunk += ring.blocks) {
      if (number > 1) {  // a first block was there before the launch
        ptx::await_memory_turn(before.full + (slot_before - 1) * ring.chunks() + chunk, number - 1);
        ptx::fence_proxy_async_global();
      }
      const int matrix = chunk / ring.chunks_of_matrix();
      const int row = chunk % ring.chunks_of_matrix() * kChunkRows;
      const int rows = min(kChunkRows, ring.shape.rows_k - row);
      const auto copy = [&](void* to, const void* from, int row_bytes) {
        const auto place = [&](int its_slot) {
          return (std::int64_t{its_slot * ring.matrices() + matrix} * ring.shape.rows_k + row) *
                 row_bytes;
        };
        copy_rows(storage, static_cast<unsigned char*>(to) + place(slot),
                  static_cast<const unsigned char*>(from) + place(slot_before), rows * row_bytes,
                  at);
      };
      copy(mine.k, before.k, Config::kHeadDim * 2);
      copy(mine.v, before.v, Config::kValueDim * 2);
      ptx::bulk_wait();
      ptx::pass_memory_turn(mine.full + (slot - 1) * ring.chunks() + chunk, number);
    }
    if (number > 1) ptx::count_memory_turn(before.empty + number - 1);
  }
}

// Fetch Q, K and V of all items. One thread does.
template <class Config>
__device__ __forceinline__ void fetch(FusedStorage<Config>& storage, const FusedRing& ring,
                                      const HopperMaps& maps) {
  StagePlace<Config::kStages> at;
  std::uint32_t q_parity = 0;
  for_each_item<Config>(
      storage, ring.world_size, ring.blocks,
      [&](const FusedStep& step, const VisitingTile& tile, int batch, int head) {
        if (tile.key_tiles() == 0) return;
        produce_q(storage.tiles, maps, tile, batch * step.shape.heads + head, q_parity);
        q_parity ^= 1;
        const int matrix = batch * step.shape.heads_kv + step.shape.kv_head(head);
#pragma unroll 1
        for (int key_tile = tile.first_tile; key_tile < tile.last_tile; ++key_tile) {
          if (step.full != nullptr) {
            ptx::await_memory_turn(step.full + matrix * ring.chunks_of_matrix() + key_tile,
                                   static_cast<int>(&step - storage.steps));
            ptx::fence_proxy_async_global();
          }
          produce_kv(storage.tiles, maps, key_tile, step.first_matrix + matrix, at);
        }
      },
      [](const FusedStep&) {});
}

// Attend with one of the warpgroups that consume, as step 07 does.
template <class Config>
__device__ __forceinline__ void consume(FusedStorage<Config>& storage, const FusedRing& ring,
                                        float exponent_scale, int consumer) {
  HopperStorage<Config>& shared = storage.tiles;
  StagePlace<Config::kStages> at;
  std::uint32_t q_parity = 0;
  Stamps<> stamps;
  HopperRows<Config> rows(shared, consumer);
  if (consumer == Config::kConsumers - 1) pass_turn<Config>(consumer);  // the first may begin
  for_each_item<Config>(
      storage, ring.world_size, ring.blocks,
      [&](const FusedStep& step, const VisitingTile& tile, int batch, int head) {
        // There is nothing to read or add, so the state stays as it is in memory.
        if (tile.key_tiles() == 0 && !step.first && !step.last) return;
        __syncwarp();  // lanes read the state that others of their warp stored a step ago
        rows.begin(step, batch, head, tile.first + consumer * kWarpgroupRows);
        if (tile.key_tiles() == 0) return rows.end(step);

        attend_tiles<true>(shared, rows, step, tile, exponent_scale, consumer, at, q_parity,
                           stamps);
        rows.end(step);
      },
      // Both consumers have waited for all copies from the slot, so one of them speaks for the block.
      [&](const FusedStep& step) {
        if (step.empty != nullptr && threadIdx.x == kWarpgroupThreads)
          ptx::count_memory_turn(step.empty);
      });
  if (consumer == 0) await_turn<Config>(consumer);  // the turn that nobody took
}

// Grid: world_size x blocks.
template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    fused_ring(const __grid_constant__ FusedArguments arguments) {
  auto& storage = shared_memory<FusedStorage<Config>>();
  static_assert(sizeof(storage) <= 227 * 1024 && Config::kKeys == kChunkRows);
  const FusedRing& ring = arguments.ring;
  const int rank = static_cast<int>(blockIdx.x) / ring.blocks;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    for (ptx::Barrier& full : storage.piece_full) ptx::barrier_init(full, 1);
    init_barriers(storage.tiles);
    storage.items = arguments.items[rank];
  }
  if (thread < ring.world_size) storage.steps[thread] = step_of(ring, rank, thread);
  __syncthreads();
  order_tiles(storage, ring.world_size);
  __syncthreads();

  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    ptx::release_registers<Config::kProducerRegisters>();
    if (threadIdx.x == 0)
      fetch(storage, ring, arguments.maps[rank]);
    else if (threadIdx.x / 32 == 1)
      for_each_item<Config>(
          storage, ring.world_size, ring.blocks,
          [&](const FusedStep& step, const VisitingTile& tile, int batch, int head) {
            count<Config>(step, tile, batch + head == 0);
          },
          [](const FusedStep&) {});
    else if (threadIdx.x == 64)
      copy_chunks(storage, ring, rank);
  } else {
    ptx::claim_registers<Config::kConsumerRegisters>();
    consume(storage, ring, arguments.exponent_scale, warpgroup - 1);
  }
}

template <class Config>
void launch_instance(const FusedRing& ring, cudaStream_t stream) {
  ptx::arm_hang_record("12_fused_ring");
  FusedArguments arguments{.ring = ring,
                           .exponent_scale = exponent_scale_of(ring.softmax_scale),
                           .maps = {},
                           .items = {}};
  const StepShape& shape = ring.shape;
  const std::int64_t matrices = std::int64_t{shape.batch} * shape.heads;
  const std::int64_t l2_bytes = device_attribute(cudaDevAttrL2CacheSize) / ring.world_size;
  for (int rank = 0; rank < ring.world_size; ++rank) {
    const FusedRank& its = ring.ranks[rank];
    const auto map_of_keys = [&](const void* tensor, int width) {
      return make_tensor_map(tensor, std::int64_t{kSlots} * ring.matrices(), shape.rows_k, width,
                             Config::kKeys);
    };
    arguments.maps[rank] = {
        make_tensor_map(its.q, matrices, its.rows_q, Config::kHeadDim, Config::kRows),
        map_of_keys(its.k, Config::kHeadDim), map_of_keys(its.v, Config::kValueDim)};
    const int row_tiles = tiles_for(its.rows_q, Config::kRows);
    const int together = matrices_together(shape, row_tiles, ring.blocks, l2_bytes);
    arguments.items[rank] = PersistentOrder::of(row_tiles, static_cast<int>(matrices), together);
  }
  launch(fused_ring<Config>,
         {ring.world_size * ring.blocks, Config::kThreads, sizeof(FusedStorage<Config>), true},
         stream, arguments);
}

}  // namespace

void launch_fused_ring(const FusedRing& ring, DType dtype, cudaStream_t stream) {
  visit_half_instance(dtype, ring.shape, [&]<class Element>(Element, auto keys, auto values) {
    launch_instance<FusedConfig<Element, keys(), values()>>(ring, stream);
  });
}

}  // namespace ringscope::cuda

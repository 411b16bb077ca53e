// Step 07: keep the tensor cores busy while softmax is computed. An SM computes 16 exp2 per clock.
// For head_dim 128 they take half as long as the tile's two products, and in step 06 they overlap
// only by luck. What changes:
//
//   - Within a warpgroup: S of tile j + 1 starts before O += P V of tile j, and softmax of S runs
//     while that product is in flight. Two tiles are in flight, S of one and P of the other.
//   - Between the warpgroups: they take turns at starting products (named barriers, ping-pong), so
//     one is at its softmax while the other's products run.
//   - Between items: the grid has one block per multiprocessor, which goes from item to item
//     (persistent_schedule.h: longest first, to and fro). The producer fetches the next item's Q,
//     K and V while the consumers still finish and write the present one.
//   - In L2: heads whose K and V fit there together are computed together.
//
// The first two stand in overlapped_tile.h, because step 12 has them as well. The ladder has a rung for
// each of these ideas, which adds it to those before. A Plan says which an instance has.
//
// m = row_max, l = row_sum, S = scores, P = exp(S - m), O = out_accum. hopper_tile.h has their
// registers.
#include <algorithm>

#include "cuda/base/launch.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/kernels/overlapped_tile.h"
#include "cuda/kernels/persistent_schedule.h"
#include "cuda/ptx/registers.h"
#include "cuda/ptx/watchdog.h"

namespace ringscope::cuda {
namespace {

// What instances differ in. The kernel has Plan; rungs lack some of its ideas, and variants have
// others, to be measured beside it.
struct Plan {
  static constexpr bool ping_pong = true, persistent = true;
  static constexpr int keys = 128;  // of a tile
};
struct OverlapAlone : Plan {
  static constexpr bool ping_pong = false, persistent = false;
};
struct PingPong : Plan {
  static constexpr bool persistent = false;
};
struct WideTiles : Plan {
  static constexpr int keys = 176;
};

template <class Config>
struct OverlapStorage {
  HopperStorage<Config> tiles;
  std::uint16_t costs[kMaxOrderedTiles];  // key tiles of each row tile
  std::uint16_t order[kMaxOrderedTiles];  // row tiles, longest first
  static_assert(sizeof(tiles) + sizeof(costs) + sizeof(order) <= 227 * 1024);
};

// Order the row tiles by cost, unless there are too many. All threads call it, and synchronise
// afterwards.
template <class Config>
__device__ __forceinline__ void order_tiles(OverlapStorage<Config>& storage,
                                            const ForwardStep& step, int row_tiles) {
  if (row_tiles > kMaxOrderedTiles) return;
  const int thread = static_cast<int>(threadIdx.x);
  for (int t = thread; t < row_tiles; t += Config::kThreads) {
    const int cost =
        VisitingTile(step.allowed_keys, step.shape.rows_q, Config::kRows, Config::kKeys, t)
            .key_tiles();
    storage.costs[t] = static_cast<std::uint16_t>(cost < 65535 ? cost : 65535);
  }
  __syncthreads();
#pragma unroll 1
  for (int t = thread; t < row_tiles; t += Config::kThreads)
    storage.order[place_by_cost(storage.costs, row_tiles, t)] = static_cast<std::uint16_t>(t);
}

// Call work() for the items of this block, in order. All roles share this loop.
template <class Config, class OfPlan, class Work>
__device__ __forceinline__ void for_each_item(const OverlapStorage<Config>& storage,
                                              const ForwardStep& step, const PersistentOrder& order,
                                              const Work& work) {
  const int blocks = static_cast<int>(gridDim.x);
#pragma unroll 1
  for (int round = 0; round < rounds_of(order.items, blocks); ++round) {
    const int item = item_of(static_cast<int>(blockIdx.x), blocks, round);
    if (item >= order.items) continue;
    const PersistentItem at = order.at(
        item, OfPlan::persistent && order.row_tiles <= kMaxOrderedTiles ? storage.order : nullptr);
    work(VisitingTile(step.allowed_keys, step.shape.rows_q, Config::kRows, Config::kKeys,
                      at.row_tile),
         at.matrix / step.shape.heads, at.matrix % step.shape.heads);
  }
}

// Grid: any number of blocks.
template <class Config, class OfPlan, class... Buffer>
__global__ void __launch_bounds__(Config::kThreads, 1)
    hopper_overlap(const ForwardStep step, const float exponent_scale, const PersistentOrder order,
                   const __grid_constant__ HopperMaps maps, Buffer... buffer) {
  auto& storage = shared_memory<OverlapStorage<Config>>();
  HopperStorage<Config>& shared = storage.tiles;
  if (threadIdx.x == 0) {
    init_barriers(shared);
    prefetch_maps(step, maps);
  }
  if constexpr (OfPlan::persistent) order_tiles(storage, step, order.row_tiles);
  __syncthreads();
  const auto for_each = [&](const auto& work) {
    for_each_item<Config, OfPlan>(storage, step, order, work);
  };

  const int warpgroup = warpgroup_index();
  StagePlace<Config::kStages> at;
  std::uint32_t q_parity = 0;
  if (warpgroup == 0) {
    ptx::release_registers<Config::kProducerRegisters>();
    if (threadIdx.x == 0) {
      Stamps<> stamps;  // there is no register for more
      for_each([&](const VisitingTile& tile, int batch, int head) {
        if (tile.key_tiles() == 0) return;
        produce(shared, maps, tile, batch * step.shape.heads + head,
                batch * step.shape.heads_kv + step.shape.kv_head(head), q_parity, at, stamps);
        q_parity ^= 1;
      });
    } else if (threadIdx.x / 32 == 1) {
      for_each([&](const VisitingTile& tile, int batch, int head) {
        count<Config>(step, tile, batch + head == 0);
      });
    }
  } else {
    ptx::claim_registers<Config::kConsumerRegisters>();
    Stamps<Buffer...> stamps{buffer...};
    const int consumer = warpgroup - 1;
    HopperRows<Config> rows(shared, consumer);
    if (OfPlan::ping_pong && consumer == Config::kConsumers - 1)
      pass_turn<Config>(consumer);  // the first may begin
    for_each([&](const VisitingTile& tile, int batch, int head) {
      // There is nothing to read or add, so the state stays as it is in memory.
      if (tile.key_tiles() == 0 && !step.first && !step.last) return;
      stamps.begin(batch * step.shape.heads + head, tile.first / Config::kRows);
      rows.begin(step, batch, head, tile.first + consumer * kWarpgroupRows);
      if (tile.key_tiles() == 0) return rows.end(step);

      attend_tiles<OfPlan::ping_pong>(shared, rows, step, tile, exponent_scale, consumer, at,
                                      q_parity, stamps);
      rows.end(step);
      stamps.end(KernelPart::epilogue);
    });
    if (OfPlan::ping_pong && consumer == 0)
      await_turn<Config>(consumer);  // the turn that nobody took
  }
}

// Without kL2 heads come in one group.
template <class Config, class OfPlan, bool kL2 = true, class... Buffer>
void launch_instance(const ForwardStep& step, cudaStream_t stream, const Buffer&... buffer) {
  const int blocks = multiprocessors();
  ptx::arm_hang_record("07_hopper_overlap");
  const int row_tiles = tiles_for(step.shape.rows_q, Config::kRows);
  const int matrices = step.shape.batch * step.shape.heads, items = row_tiles * matrices;
  const int together = kL2 ? matrices_together(step.shape, row_tiles, blocks,
                                               device_attribute(cudaDevAttrL2CacheSize))
                           : matrices;
  launch(hopper_overlap<Config, OfPlan, Buffer...>,
         {OfPlan::persistent && blocks < items ? blocks : items, Config::kThreads,
          sizeof(OverlapStorage<Config>)},
         stream, step, exponent_scale_of(step.softmax_scale),
         PersistentOrder::of(row_tiles, matrices, together), make_maps<Config>(step), buffer...);
}

template <class OfPlan, bool kL2 = true>
void launch_step(const ForwardStep& step, DType dtype, int, cudaStream_t stream) {
  visit_hopper_config<OfPlan::keys>(step, dtype, [&]<class Config>(Config) {
    if constexpr (std::is_same_v<OfPlan, Plan> || kIsOfRungs<Config>)
      launch_instance<Config, OfPlan, kL2>(step, stream);
  });
}

void launch_stamped(const ForwardStep& step, DType dtype, const StampBuffer& buffer,
                    cudaStream_t stream) {
  visit_hopper_config(step, dtype, [&]<class Config>(Config) {
    launch_instance<Config, Plan>(step, stream, buffer);
  });
}

}  // namespace

constinit const Kernel hopper_overlap_kernel{
    .number = 7,
    .name = "hopper_overlap",
    .idea = "softmax under the next product, ping-pong, persistent blocks, longest first",
    .limits = {.half = true, .hopper = true},
    .tiles = kHopperTiles,
    .launch_forward = launch_step<Plan>,
    .launch_stamped = launch_stamped};

constinit const Kernel hopper_overlap_alone =
    rung_of(7, 'a', "overlap_alone", "softmax under the next product",
            launch_step<OverlapAlone, false>, kHopperTiles);
constinit const Kernel hopper_ping_pong = rung_of(7, 'b', "ping_pong", "and warpgroups take turns",
                                                  launch_step<PingPong, false>, kHopperTiles);
constinit const Kernel hopper_persistent =
    rung_of(7, 'c', "persistent", "and persistent blocks, longest first", launch_step<Plan, false>,
            kHopperTiles);
constinit const Kernel hopper_wide_tiles =
    rung_of(7, 'd', "wide_tiles", "07 with 176 keys in a tile", launch_step<WideTiles>,
            kTilesOfKeys<WideTiles::keys>);

}  // namespace ringscope::cuda

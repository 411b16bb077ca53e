// Defines what the Hopper forward kernels (06, 07) share: the shared memory of a block, the copies
// of its producer, and the steps of a consumer warpgroup's work on one tile.
//
// A warpgroup owns 64 rows, of which each thread has two, h = 0 and 1, eight apart; four neighbouring
// threads share them. forward_rows.h says what it does with them. A negative softmax_scale negates Q in
// shared memory.
//
// A masked key's p is 0, but 0 * NaN is NaN: the key tiles at the ends of a query tile's interval
// also hold V rows that none of its queries may attend. Rows past rows_k are zeros.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "cuda/base/tensor_map.h"
#include "cuda/kernels/forward_rows.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/kernels/stamps.h"
#include "cuda/kernels/warpgroup.h"
#include "cuda/ptx/tma.h"

namespace ringscope::cuda {

// A tile of rows and the key tiles [first_tile, last_tile) that it visits.
struct VisitingTile : RowTile {
  int first_tile, last_tile;

  __host__ __device__ constexpr VisitingTile(const RowInterval* allowed, int rows_q, int tile_rows,
                                             int tile_keys, int index)
      : RowTile(at(index, tile_rows, rows_q, allowed)),
        first_tile(first_visitor(tile_keys)),
        last_tile(last_visitor(tile_keys)) {}

  __host__ __device__ constexpr int key_tiles() const { return last_tile - first_tile; }
};

// One compiled instance.
template <class Element_, int kRows_, int kKeys_, int kHeadDim_, int kValueDim_, int kStages_>
struct HopperConfig : WarpgroupRoles {
  using Element = Element_;
  static constexpr int kRows = kRows_, kKeys = kKeys_, kHeadDim = kHeadDim_;
  static constexpr int kValueDim = kValueDim_, kStages = kStages_;
  static_assert(kRows == kConsumers * kWarpgroupRows);
  static_assert(kKeys % kProductDepth == 0 && kKeys * kRowBytes % kSwizzleBytes == 0);
  static_assert(kHeadDim % kPanelColumns == 0 && kValueDim % kPanelColumns == 0);
};

template <int kKeys>
inline constexpr TileShape kTilesOfKeys[] = {{128, kKeys}};
inline constexpr auto& kHopperTiles = kTilesOfKeys<128>;

// The one instance that rungs of single ideas have (KernelLimits::rung).
template <class Config>
inline constexpr bool kIsOfRungs =
    std::is_same_v<typename Config::Element, bf16>&& Config::kHeadDim == 128;

// Call f(Config{}) with the instance for this step. More stages fit where rows are short. At head_dim
// 192 tiles take 208 KB.
template <int kKeys = 128, class F>
void visit_hopper_config(const ForwardStep& step, DType dtype, F&& f) {
  visit_half_instance(dtype, step.shape, [&]<class Element>(Element, auto keys, auto values) {
    constexpr TileShape kTile = kTilesOfKeys<kKeys>[0];
    constexpr int kStages = keys() == 64 ? 4 : 2;
    f(HopperConfig<Element, kTile.rows, kTile.keys, keys(), values(), kStages>{});
  });
}

template <class Config>
struct HopperStorage {
  using Element = typename Config::Element;
  using Q = SharedTile<Element, Config::kRows, Config::kHeadDim>;
  using K = SharedTile<Element, Config::kKeys, Config::kHeadDim>;
  using V = SharedTile<Element, Config::kKeys, Config::kValueDim>;

  Q q;
  K k[Config::kStages];
  V v[Config::kStages];
  ptx::Barrier q_full, q_empty;
  ptx::Barrier k_full[Config::kStages], k_empty[Config::kStages];
  ptx::Barrier v_full[Config::kStages], v_empty[Config::kStages];
};

// Initialise the barriers in one thread; the block synchronises afterwards. A buffer is
// full once its copies have landed, and empty once every consumer warp has released it.
template <class Config>
__device__ __forceinline__ void init_barriers(HopperStorage<Config>& shared) {
  constexpr int kWarps = Config::kConsumers * 4;
  ptx::barrier_init(shared.q_full, 1);
  ptx::barrier_init(shared.q_empty, kWarps);
  for (int stage = 0; stage < Config::kStages; ++stage) {
    ptx::barrier_init(shared.k_full[stage], 1);
    ptx::barrier_init(shared.v_full[stage], 1);
    ptx::barrier_init(shared.k_empty[stage], kWarps);
    ptx::barrier_init(shared.v_empty[stage], kWarps);
  }
  ptx::fence_barrier_init();
}

struct HopperMaps {
  TensorMap q, k, v;
};

// Called by one thread.
__device__ __forceinline__ void prefetch_maps(const ForwardStep& step, const HopperMaps& maps) {
  if (step.shape.rows_k == 0) return;
  ptx::tma_prefetch(maps.q);
  ptx::tma_prefetch(maps.k);
  ptx::tma_prefetch(maps.v);
}

// Copy an item's Q as soon as its buffer is empty.
template <class Config>
__device__ __forceinline__ void produce_q(HopperStorage<Config>& shared, const HopperMaps& maps,
                                          const VisitingTile& tile, int q_matrix,
                                          std::uint32_t q_parity) {
  ptx::barrier_wait(shared.q_empty, q_parity ^ 1);
  ptx::barrier_arrive_expecting(shared.q_full, sizeof(shared.q));
  ptx::tma_load(&shared.q, maps.q, 0, tile.first, 0, q_matrix, shared.q_full);
}

// Copy a tile of K or V.
template <class Visitor>
__device__ __forceinline__ void load_visitor(Visitor& to, const TensorMap& map, int key,
                                             int kv_matrix, ptx::Barrier& full) {
  ptx::barrier_arrive_expecting(full, sizeof(to));
  ptx::tma_load(&to, map, 0, key, 0, kv_matrix, full);
}

// Copy K and V of a key tile, each into the next buffer of its ring as soon as that is empty.
template <class Config>
__device__ __forceinline__ void produce_kv(HopperStorage<Config>& shared, const HopperMaps& maps,
                                           int key_tile, int kv_matrix,
                                           StagePlace<Config::kStages>& at) {
  const int key = key_tile * Config::kKeys, stage = at.stage;
  ptx::barrier_wait(shared.k_empty[stage], at.parity ^ 1);
  load_visitor(shared.k[stage], maps.k, key, kv_matrix, shared.k_full[stage]);
  ptx::barrier_wait(shared.v_empty[stage], at.parity ^ 1);
  load_visitor(shared.v[stage], maps.v, key, kv_matrix, shared.v_full[stage]);
  at.advance();
}

// Do the producer's work on one item.
template <class Config>
__device__ __forceinline__ void produce(HopperStorage<Config>& shared, const HopperMaps& maps,
                                        const VisitingTile& tile, int q_matrix, int kv_matrix,
                                        std::uint32_t q_parity, StagePlace<Config::kStages>& at,
                                        auto& stamps) {
  stamps.begin(q_matrix, tile.first / Config::kRows);
  produce_q(shared, maps, tile, q_matrix, q_parity);
#pragma unroll 1
  for (int key_tile = tile.first_tile; key_tile < tile.last_tile; ++key_tile) {
    produce_kv(shared, maps, key_tile, kv_matrix, at);
    stamps.end(KernelPart::fetch, key_tile);
  }
}

// Count an item. A warp of the producer's warpgroup does, because it has time.
template <class Config>
__device__ __forceinline__ void count(const ForwardStep& step, const VisitingTile& tile,
                                      bool is_first_matrix) {
  count_visits(step.counters, tile, is_first_matrix ? step.allowed_keys : nullptr, Config::kKeys,
               step.shape.rows_k);
}

// One warpgroup's 64 rows of one item. Its 128 threads call all functions together.
template <class Config>
struct HopperRows
    : ForwardRows<typename Config::Element, 1, Config::kKeys, Config::kValueDim, true> {
  using Element = typename Config::Element;
  using Base = ForwardRows<Element, 1, Config::kKeys, Config::kValueDim, true>;
  using Storage = HopperStorage<Config>;

  Weights<Config::kKeys> p;  // P rounded, as an operand
  std::uint64_t q_descriptor;
  int thread, first_row = 0;
  std::int64_t first_query = 0;

  __device__ __forceinline__ HopperRows(const Storage& shared, int warpgroup)
      : q_descriptor(rows_descriptor(ptx::shared_address(&shared.q) +
                                     warpgroup * kWarpgroupRows * kRowBytes)),
        thread(threadIdx.x % kWarpgroupThreads) {}

  // Load the carried state of the rows from `first` on.
  __device__ __forceinline__ void begin(const ForwardStep& step, int batch, int head, int first) {
    first_row = first;
    first_query = row_index(step.shape, batch, head, 0);
    Base::begin(step, first_query, first_row, thread);
  }
  __device__ __forceinline__ void mask(const ForwardStep& step, int key) {
    Base::mask(step, key, first_row, thread);
  }
  __device__ __forceinline__ void end(const ForwardStep& step) {
    const StepShape& shape = step.shape;  // the head has no register of its own
    const int head = step.sink_logits == nullptr
                         ? 0
                         : static_cast<int>(first_query / shape.rows_q % shape.heads);
    Base::end(step, head, first_query, first_row, thread);
  }

  // Start S = Q K^T.
  __device__ __forceinline__ void start_scores(const typename Storage::K& k) {
    start_row_product<typename Storage::Q>(this->s, q_descriptor, k);
  }
  // Start O += P V.
  __device__ __forceinline__ void start_output(const typename Storage::V& v) {
    start_column_product(this->o, p, v);
  }
  // No product that reads p may be in flight.
  __device__ __forceinline__ void pack_p() { pack_weights<Element>(p, this->s); }
};

// Arrive once for the running warp.
__device__ __forceinline__ void release(ptx::Barrier& empty) {
  if (threadIdx.x % 32 == 0) ptx::barrier_arrive(empty);
}

// Negate a warpgroup's 64 rows of Q, which have landed, before any product reads them. `barrier` is
// a named barrier that only this warpgroup uses.
template <class Config>
__device__ __forceinline__ void negate_q(HopperStorage<Config>& shared, int warpgroup,
                                         int barrier) {
  for (int panel = 0; panel < Config::kHeadDim / kPanelColumns; ++panel) {
    auto* words = reinterpret_cast<std::uint32_t*>(
        shared.q.values + (panel * Config::kRows + warpgroup * kWarpgroupRows) * kPanelColumns);
    for (int i = threadIdx.x % kWarpgroupThreads; i < kWarpgroupRows * kPanelColumns / 2;
         i += kWarpgroupThreads)
      ptx::store_for_async(words[i], words[i] ^ 0x80008000u);
  }
  ptx::fence_proxy_async();
  ptx::named_barrier_sync(barrier, kWarpgroupThreads);
}

template <class Config>
HopperMaps make_maps(const ForwardStep& step) {
  const StepShape& shape = step.shape;
  const std::int64_t q_matrices = std::int64_t{shape.batch} * shape.heads;
  const std::int64_t kv_matrices = std::int64_t{shape.batch} * shape.heads_kv;
  const auto map_of_keys = [&](const void* tensor, int width) {
    return make_tensor_map(tensor, kv_matrices, shape.rows_k, width, Config::kKeys);
  };
  return {make_tensor_map(step.q, q_matrices, shape.rows_q, Config::kHeadDim, Config::kRows),
          map_of_keys(step.k, Config::kHeadDim), map_of_keys(step.v, Config::kValueDim)};
}

}  // namespace ringscope::cuda

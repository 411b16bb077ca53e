// Defines what the Hopper forward kernels (06, 07) share: the shared memory of a block, the copies
// of its producer, and the steps of a consumer warpgroup's work on one tile.
//
// A warpgroup owns 64 rows. Scores S = Q K^T are accumulators. P = exp2(t - m) replaces them, and
// is rounded and packed in place as the next product's operand (the layouts agree, see
// hopper_layout.h). O += P V adds to accumulators that start as the carried out_accum. Each thread
// has two rows, h = 0 and 1, eight apart; four neighbouring threads share them.
//
// Units: t = s * exponent_scale with exponent_scale = |softmax_scale| log2(e), so exp is one exp2,
// and the subtraction of m is part of the multiplication. A negative softmax_scale negates Q in
// shared memory, which is exact. A scale of 0 becomes the smallest normal number, so that masked
// scores stay -inf and all others become 0.
//
// Softmax is relative to `unit`, an earlier row_max, until row_max exceeds it by kLazyGrowth. While
// no row of a warp does, O is not multiplied, which takes as many instructions as exp2 (the idea of
// FlashAttention-4: flash_attn/cute/softmax.py of Dao-AILab/flash-attention). p is at most
// 2^kLazyGrowth then, which bf16 and f16 hold, and the end of a step brings o and l to row_max.
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
#include "cuda/kernels/kernel_table.h"
#include "cuda/kernels/row_state.h"
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
template <class Element_, int kRows_, int kKeys_, int kHeadDim_, int kStages_>
struct HopperConfig : WarpgroupRoles {
  using Element = Element_;
  static constexpr int kRows = kRows_, kKeys = kKeys_, kHeadDim = kHeadDim_, kStages = kStages_;
  static constexpr int kQBytes = kRows * kHeadDim * 2, kKvBytes = kKeys * kHeadDim * 2;
  static_assert(kRows == kConsumers * kWarpgroupRows);
  static_assert(kKeys % kProductDepth == 0 && kHeadDim % kPanelColumns == 0);
  static_assert(kQBytes % kSwizzleBytes == 0 && kKvBytes % kSwizzleBytes == 0);
};

inline constexpr float kLazyGrowth = 8;  // of a row's maximum, in powers of two

constexpr TileShape kHopperTiles[] = {{128, 128}};

// The one instance that rungs of single ideas have (KernelLimits::rung).
template <class Config>
inline constexpr bool kIsOfRungs =
    std::is_same_v<typename Config::Element, bf16>&& Config::kHeadDim == 128;
constexpr Kernel rung_of(int number, char letter, std::string_view name, std::string_view idea,
                         decltype(Kernel::launch_forward) launch) {
  return {.number = number,
          .rung = letter,
          .name = name,
          .idea = idea,
          .limits = kRungLimits,
          .tiles = kHopperTiles,
          .launch_forward = launch};
}

// Call f(Config{}) with the instance for this step. More stages fit where rows are short.
template <class F>
void visit_hopper_config(const ForwardStep& step, DType dtype, F&& f) {
  visit_half_instance(dtype, step.shape.head_dim, [&]<class Element>(Element, auto head_dim) {
    constexpr int kStages = head_dim() == 64 ? 4 : 2;
    f(HopperConfig<Element, kHopperTiles[0].rows, kHopperTiles[0].keys, head_dim(), kStages>{});
  });
}

template <class Config>
struct HopperStorage {
  alignas(kSwizzleBytes) typename Config::Element q[Config::kRows * Config::kHeadDim];
  alignas(kSwizzleBytes)
      typename Config::Element k[Config::kStages][Config::kKeys * Config::kHeadDim];
  alignas(kSwizzleBytes)
      typename Config::Element v[Config::kStages][Config::kKeys * Config::kHeadDim];
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
  ptx::barrier_arrive_expecting(shared.q_full, Config::kQBytes);
  ptx::tma_load(shared.q, maps.q, 0, tile.first, 0, q_matrix, shared.q_full);
}

// Copy a tile of K or V.
template <class Config>
__device__ __forceinline__ void load_visitor(typename Config::Element* to, const TensorMap& map,
                                             int key, int kv_matrix, ptx::Barrier& full) {
  ptx::barrier_arrive_expecting(full, Config::kKvBytes);
  ptx::tma_load(to, map, 0, key, 0, kv_matrix, full);
}

// Copy K and V of a key tile, each into the next buffer of its ring as soon as that is empty.
template <class Config>
__device__ __forceinline__ void produce_kv(HopperStorage<Config>& shared, const HopperMaps& maps,
                                           int key_tile, int kv_matrix,
                                           StagePlace<Config::kStages>& at) {
  const int key = key_tile * Config::kKeys, stage = at.stage;
  ptx::barrier_wait(shared.k_empty[stage], at.parity ^ 1);
  load_visitor<Config>(shared.k[stage], maps.k, key, kv_matrix, shared.k_full[stage]);
  ptx::barrier_wait(shared.v_empty[stage], at.parity ^ 1);
  load_visitor<Config>(shared.v[stage], maps.v, key, kv_matrix, shared.v_full[stage]);
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

// Tile counts. A thread of the producer's warpgroup counts, because it has time.
struct TileCounts {
  int visited = 0, full = 0, all = 0;

  __device__ __forceinline__ void add(const VisitingTile& tile, int kKeys, int rows_k) {
#pragma unroll 1
    for (int t = tile.first_tile; t < tile.last_tile; ++t)
      full += tile.is_full(t * kKeys, (t + 1) * kKeys);
    visited += tile.key_tiles();
    all += tiles_for(rows_k, kKeys);
  }
  __device__ __forceinline__ void store(StepCounters* counters) const {
    add_tiles(counters, full, visited - full, all - visited);
  }
};

// One warpgroup's 64 rows of one item. Its 128 threads call all functions together.
template <class Config>
struct HopperRows {
  using Element = typename Config::Element;
  static constexpr int kKeys = Config::kKeys, kHeadDim = Config::kHeadDim;

  float s[kKeys / 2];              // scores, then p
  std::uint32_t p[kKeys / 16][4];  // p rounded, as an operand
  float o[kHeadDim / 2];           // out_accum
  float row_max[2], unit[2];       // base 2
  float row_sum[2];                // relative to unit; covers this thread's columns and this step
  float factor[2];                 // pending factor of o
  std::uint64_t q_descriptor;
  int thread;  // in the warpgroup
  int row[2];  // in the tensor; rows past the end compute on zeros and store nothing
  unsigned pairs = 0;

  __device__ __forceinline__ HopperRows(const HopperStorage<Config>& shared, int warpgroup)
      : q_descriptor(rows_descriptor(ptx::shared_address(shared.q) +
                                     warpgroup * kWarpgroupRows * kRowBytes)),
        thread(threadIdx.x % kWarpgroupThreads) {}

  // Load the carried state of the rows from `first_row` on.
  __device__ __forceinline__ void begin(const ForwardStep& step, int batch, int head,
                                        int first_row) {
    pairs = 0;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      row[h] = first_row + accumulator_row(thread, 2 * h);
      const bool has_state = !step.first && row[h] < step.shape.rows_q;
      const std::int64_t index = row_index(step.shape, batch, head, row[h]);
      row_max[h] = unit[h] = has_state ? step.row_max[index] * kLog2e : kNoKeys;
      row_sum[h] = 0;
      const float2* out = reinterpret_cast<const float2*>(step.out + index * kHeadDim) +
                          accumulator_column(thread, 0) / 2;
#pragma unroll
      for (int i = 2 * h; i < kHeadDim / 2; i += 4) {
        const float2 pair = has_state ? out[accumulator_column(0, i) / 2] : float2{0, 0};
        o[i] = pair.x;
        o[i + 1] = pair.y;
      }
    }
  }

  // Start S = Q K^T.
  __device__ __forceinline__ void start_scores(const Element* k) {
    start_row_product<kHeadDim, Config::kRows, kKeys>(s, q_descriptor, k);
  }

  // Start O += P V.
  __device__ __forceinline__ void start_output(const Element* v) {
    start_column_product<kHeadDim, kKeys>(o, p, v);
  }

  // Set the scores of keys that a row may not attend to -inf. `key` is the tile's first key.
  __device__ __forceinline__ void mask(const ForwardStep& step, int key) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const RowInterval allowed =
          row[h] < step.shape.rows_q ? step.allowed_keys[row[h]] : RowInterval{0, 0};
      mask_columns(s, thread, h, {allowed.first - key, allowed.last - key}, kNoKeys);
      if (thread % 4 == 0) pairs += overlap(allowed, key, key + kKeys);
    }
  }

  // Count the pairs of a tile that needs no mask.
  __device__ __forceinline__ void count_all(const ForwardStep& step) {
    if (thread % 4 != 0) return;
#pragma unroll
    for (int h = 0; h < 2; ++h)
      if (row[h] < step.shape.rows_q) pairs += kKeys;
  }

  // Do the online softmax: s becomes p, row_max and row_sum include it, and `factor` brings o to
  // the new unit.
  __device__ __forceinline__ void softmax(float exponent_scale) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float largest = fmaxf(s[2 * h], s[2 * h + 1]);
#pragma unroll
      for (int i = 2 * h + 4; i < kKeys / 2; i += 4)
        largest = fmaxf(largest, fmaxf(s[i], s[i + 1]));
      const float before = unit[h];
      row_max[h] = fmaxf(row_max[h], max_over_lanes<4>(largest) * exponent_scale);
      if (!(row_max[h] - before < kLazyGrowth)) unit[h] = row_max[h];  // also from -inf
      const float subtracted = exponent_unit(unit[h]);
      factor[h] = ptx::exp2_approx(before - subtracted);
      float sum = 0;
#pragma unroll
      for (int i = 2 * h; i < kKeys / 2; i += 4) {
        s[i] = ptx::exp2_approx(fmaf(s[i], exponent_scale, -subtracted));
        s[i + 1] = ptx::exp2_approx(fmaf(s[i + 1], exponent_scale, -subtracted));
        sum += s[i] + s[i + 1];
      }
      row_sum[h] = row_sum[h] * factor[h] + sum;
    }
  }

  // No product that reads p may be in flight.
  __device__ __forceinline__ void pack_p() { pack_weights<Element>(p, s); }

  // No product that adds to o may be in flight.
  __device__ __forceinline__ void rescale_output() {
    if (!__any_sync(0xffffffffu, factor[0] != 1 || factor[1] != 1)) return;
#pragma unroll
    for (int i = 0; i < kHeadDim / 2; ++i) o[i] *= factor[i / 2 % 2];
  }

  // Store the state in the form that the next step, or the reader of the result, expects.
  __device__ __forceinline__ void end(const ForwardStep& step, int batch, int head) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float sum = row_sum[h];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      const bool exists = row[h] < step.shape.rows_q;
      const std::int64_t index = row_index(step.shape, batch, head, row[h]);
      CarriedRow before;
      if (exists) before = carried_row(step, index);
      __syncwarp();  // all four threads of the row have read
      if (!exists) continue;
      const float natural = natural_max(before, row_max[h]);
      const float grown = unit[h] == row_max[h] ? 1 : ptx::exp2_approx(unit[h] - row_max[h]);
      const double total = combined_row_sum<float>(before, natural, sum * grown);
      if (thread % 4 == 0) store_row<float>(step, index, natural, total);
      const float by = out_factor<float>(step, total) * grown;
      if (step.out_16 != nullptr) {
        auto* const out = static_cast<std::uint32_t*>(step.out_16) + index * (kHeadDim / 2) +
                          accumulator_column(thread, 0) / 2;
#pragma unroll
        for (int i = 2 * h; i < kHeadDim / 2; i += 4)
          out[accumulator_column(0, i) / 2] = ptx::pack<Element>(o[i] * by, o[i + 1] * by);
        continue;
      }
      float2* out = reinterpret_cast<float2*>(step.out + index * kHeadDim) +
                    accumulator_column(thread, 0) / 2;
#pragma unroll
      for (int i = 2 * h; i < kHeadDim / 2; i += 4)
        out[accumulator_column(0, i) / 2] = {o[i] * by, o[i + 1] * by};
    }
    if (batch == 0 && head == 0) add_pairs(step.counters, pairs);
  }
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
        shared.q + (panel * Config::kRows + warpgroup * kWarpgroupRows) * kPanelColumns);
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
  const auto map_of_keys = [&](const void* tensor) {
    return make_tensor_map(tensor, kv_matrices, shape.rows_k, Config::kHeadDim, Config::kKeys);
  };
  return {make_tensor_map(step.q, q_matrices, shape.rows_q, Config::kHeadDim, Config::kRows),
          map_of_keys(step.k), map_of_keys(step.v)};
}

}  // namespace ringscope::cuda

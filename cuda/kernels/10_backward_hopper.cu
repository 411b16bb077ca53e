// 10: the backward pass of bf16 and f16 with Hopper's own instructions, in the same two launches as
// 08 and 09 (backward_rows.h).
//
//   t = scale log2(e) Q K^T     P = exp2(t - unit)     dP = dO V^T     dS = P (dP - delta)
//   dV += P^T dO                dK += dS^T Q           dQ += dS K
//
// with unit = m log2(e) + log2(l). What changes compared with 09, and why it is faster:
//
//   - The copy engine (TMA) brings the visitors, swizzled, as far ahead as there are stages. One
//     thread asks for them; the producers store unit and delta of visiting queries beside them.
//   - Products are WGMMA, 64 own rows per warpgroup, and read the visitors directly from shared
//     memory: along their rows for S and dP, down their columns for the gradients. No ldmatrix.
//   - Two or three warpgroups consume, with 240 or 160 registers per thread. P and dS go from
//     accumulators to operands in registers, as in 09. When keys own, the kernel computes
//     S^T = K Q^T, so P^T and dS^T appear where the gradients need them.
//   - Products are kept in flight. These are a warpgroup's products in order, and what it computes
//     meanwhile, when keys own (n: number of the visit):
//
//        products   dV(n)   dK(n)   S(n+1)   dP(n+1)      dV(n+1)  ..
//        threads    dS(n)                    P(n+1)       dS(n+1)  ..
//
//     S of the next visitors starts right after dK, and P is computed under dP. The rest of exp,
//     and everything else, runs under the products of the other warpgroups.
//
// Registers decide how much is in flight. At head_dim 128, when keys own and 64 visitors come: dK
// and dV 64 + 64, S 32, dP 32, P and dS as operands 16 + 16, together 224, which is too many with
// addresses. So S begins when dV has ended, which frees P, and dP when dK has ended, which frees
// dS. With 80 or more visitors, or 160 registers, dS is computed before dV begins, so P never
// exists twice. No product is in flight from one iteration to the next, because the compiler could
// not see there that its registers are untouched, and would wait for every product.
//
// Why two launches: with 5 products per tile instead of 7, blocks that run at the same time would
// sum dQ, in an order that they would have to enforce to give the same bits each time. So at most
// 5/7 of the matrix rate counts (FLOPs are 10 head_dim per pair, work done 14): at a rate of 790
// TFLOP/s that is 564, and 450 is 80 % of it. 11 does with one launch.
//
// Full tiles take no mask. A masked P is 0, but 0 * NaN is NaN: visitors that share a tile with one
// that some own row meets are read. Rows past the end are zeros.
#include <algorithm>

#include "cuda/base/launch.h"
#include "cuda/base/tensor_map.h"
#include "cuda/kernels/backward_hopper.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/ptx/registers.h"
#include "cuda/ptx/tma.h"

namespace ringscope::cuda {
namespace {

struct Maps {
  TensorMap own[2], visitors[2];
};

// A block's work: an own tile of one (batch, head), and the tiles that visit it, first those of one
// head, then those of the next head of the group.
struct Work {
  RowTile own;
  int first_tile, last_tile;      // of visitors
  int first_matrix, last_matrix;  // of visitors, batch * heads + head
  std::int64_t own_matrix;

  template <class Config>
  static __device__ __forceinline__ Work of_item(const BackwardStep& step, unsigned item) {
    constexpr bool kKeysOwn = Config::kKeysOwn;
    const StepShape& shape = step.shape;
    const int own_rows = kKeysOwn ? shape.rows_k : shape.rows_q;
    const int own_heads = kKeysOwn ? shape.heads_kv : shape.heads;
    const auto [block, own_matrix] = TileAndHead::of(item, shape.batch * own_heads);
    const int tile = own_tile_of(Config::kOwner, block, tiles_for(own_rows, Config::kOwn));
    const int group = shape.heads / shape.heads_kv;
    Work work;
    work.own = RowTile::at(tile, Config::kOwn, own_rows, table_of(Config::kOwner, step));
    work.first_tile = work.own.first_visitor(Config::kVisit);
    work.last_tile = work.own.last_visitor(Config::kVisit);
    work.own_matrix = own_matrix;
    work.first_matrix = kKeysOwn ? own_matrix * group : own_matrix / group;
    work.last_matrix = work.first_matrix + (kKeysOwn ? group : 1);
    return work;
  }

  __device__ __forceinline__ int visits() const {
    return (last_tile - first_tile) * (last_matrix - first_matrix);
  }
};

// How many threads of the producer warpgroup work. When keys own, a visiting query's notes take
// three loads and a logarithm, and one warp could not make them as fast as they are used.
template <class Config>
inline constexpr int kProducers = Config::kKeysOwn ? kWarpgroupThreads : 32;

// Initialise the barriers in one thread; the block synchronises afterwards. A stage is full once
// its copies landed and the producers wrote its notes, empty once every consumer warp released it.
template <class Config>
__device__ __forceinline__ void init_barriers(BackwardHopperStorage<Config>& shared) {
  ptx::barrier_init(shared.own_full, 1);
  for (int stage = 0; stage < Config::kStages; ++stage) {
    ptx::barrier_init(shared.full[stage], Config::kKeysOwn ? kProducers<Config> + 1 : 1);
    ptx::barrier_init(shared.empty[stage], Config::kConsumers * 4);
  }
  ptx::fence_barrier_init();
}

// Do the producers' work. The first producer thread starts the copies.
template <class Config>
__device__ __forceinline__ void produce(BackwardHopperStorage<Config>& shared,
                                        const BackwardStep& step, const Maps& maps,
                                        const Work& work) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    ptx::barrier_arrive_expecting(shared.own_full, 2 * Config::kOwnBytes);
    for (int i = 0; i < 2; ++i)
      ptx::tma_load(shared.own[i], maps.own[i], 0, work.own.first, 0,
                    static_cast<int>(work.own_matrix), shared.own_full);
  }
  StagePlace<Config::kStages> at;
  for (int matrix = work.first_matrix; matrix < work.last_matrix; ++matrix) {
    for (int tile = work.first_tile; tile < work.last_tile; ++tile) {
      const int first = tile * Config::kVisit;
      auto& notes = shared.notes[at.stage];
      ptx::barrier_wait(shared.empty[at.stage], at.parity ^ 1);
      if (thread == 0) {
        ptx::Barrier& full = shared.full[at.stage];
        notes.first_row = first;
        notes.masked = !work.own.is_full(first, first + Config::kVisit);
        ptx::barrier_arrive_expecting(full, 2 * Config::kVisitBytes);
        for (int i = 0; i < 2; ++i)
          ptx::tma_load(shared.visitors[at.stage][i], maps.visitors[i], 0, first, 0, matrix, full);
      }
      if constexpr (Config::kKeysOwn) {
#pragma unroll 1  // the producer has few registers
        for (int i = thread; i < Config::kVisit; i += kProducers<Config>) {
          const QueryUnits query = query_units(step, matrix, first + i);
          notes.unit[i] = query.unit;
          notes.delta[i] = query.delta;
        }
        ptx::barrier_arrive(shared.full[at.stage]);
      } else {
        __syncwarp();  // nothing else keeps the other lanes from falling a whole ring behind
      }
      at.advance();
    }
  }
}

// Do one consumer warpgroup's work, from the first visitors to the last.
template <class Config>
__device__ __forceinline__ void consume(BackwardHopperRows<Config>& rows,
                                        BackwardHopperStorage<Config>& shared,
                                        const RowInterval* table, int own_rows,
                                        float exponent_scale, int visits) {
  constexpr bool kKeysOwn = Config::kKeysOwn;
  StagePlace<Config::kStages> at;
  // S is done and dP in flight, so compute P under dP.
  const auto probabilities = [&] {
    ptx::wgmma_done(rows.s);
    rows.exponentials(shared, at.stage, exponent_scale);
    if (shared.notes[at.stage].masked)
      rows.mask(table, own_rows, shared.notes[at.stage].first_row);
    else
      rows.count_all(own_rows);
    ptx::wgmma_wait<0>();
    ptx::wgmma_done(rows.dp);
  };
  // P and dP are done, so start the gradients.
  const auto gradients = [&] {
    if constexpr (Config::kDsUnderDv) {
      pack_weights<typename Config::Element>(rows.p, rows.s);
      ptx::wgmma_fence();
      rows.start_gradient(rows.second, rows.p, 1, shared, at.stage);
    }
    rows.differences(shared, at.stage);
    if constexpr (kKeysOwn && !Config::kDsUnderDv)
      pack_weights<typename Config::Element>(rows.p, rows.s);
    pack_weights<typename Config::Element>(rows.ds, rows.dp);
    ptx::wgmma_fence();
    if constexpr (kKeysOwn && !Config::kDsUnderDv)
      rows.start_gradient(rows.second, rows.p, 1, shared, at.stage);
    rows.start_gradient(rows.first, rows.ds, 0, shared, at.stage);
  };

  ptx::barrier_wait(shared.own_full, 0);
  ptx::barrier_wait(shared.full[at.stage], at.parity);
  ptx::wgmma_fence();
  rows.start_product(rows.s, 0, shared, at.stage);
  rows.start_product(rows.dp, 1, shared, at.stage);
  ptx::wgmma_wait<1>();
  probabilities();
  while (--visits > 0) {
    gradients();
    if constexpr (kKeysOwn) {
      ptx::wgmma_wait<1>();  // dV; its P is free
      ptx::wgmma_done(rows.second);
    }
    const int before = at.stage;
    at.advance();
    ptx::barrier_wait(shared.full[at.stage], at.parity);
    ptx::wgmma_fence();
    rows.start_product(rows.s, 0, shared, at.stage);
    ptx::wgmma_wait<1>();  // dK or dQ; its dS is free, and the visitors before may go
    ptx::wgmma_done(rows.first);
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::barrier_arrive(shared.empty[before]);
    ptx::wgmma_fence();
    rows.start_product(rows.dp, 1, shared, at.stage);
    ptx::wgmma_wait<1>();  // S
    probabilities();
  }
  gradients();
  ptx::wgmma_wait<0>();
  ptx::wgmma_done(rows.first);
  if constexpr (kKeysOwn) ptx::wgmma_done(rows.second);
}

// Grid: own heads of all batch entries, of own tiles (TileAndHead), from `first_item` on.
template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    backward_hopper(const BackwardStep step, const float exponent_scale, const unsigned first_item,
                    const __grid_constant__ Maps maps) {
  constexpr bool kKeysOwn = Config::kKeysOwn;
  auto& shared = shared_memory<BackwardHopperStorage<Config>>();
  const Work work = Work::of_item<Config>(step, first_item + blockIdx.x);
  if (threadIdx.x == 0) init_barriers(shared);
  __syncthreads();

  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    ptx::release_registers<Config::kProducerRegisters>();
    if (threadIdx.x < kProducers<Config> && work.visits() > 0) produce(shared, step, maps, work);
    if (!kKeysOwn && threadIdx.x == 0) {
      int full = 0, partial = 0;
      for (int tile = work.first_tile; tile < work.last_tile; ++tile)
        ++(work.own.is_full(tile * Config::kVisit, (tile + 1) * Config::kVisit) ? full : partial);
      add_tiles(step.counters, full, partial,
                tiles_for(step.shape.rows_k, Config::kVisit) - full - partial);
    }
  } else {
    ptx::claim_registers<Config::kConsumerRegisters>();
    const int own_rows = kKeysOwn ? step.shape.rows_k : step.shape.rows_q;
    BackwardHopperRows<Config> rows(shared, warpgroup - 1, work.own);
    if constexpr (!kKeysOwn)
      for (int h = 0; h < 2; ++h)
        rows.queries[h] = query_units(step, work.own_matrix, rows.row + 8 * h);
    if (work.visits() > 0)
      consume(rows, shared, table_of(Config::kOwner, step), own_rows, exponent_scale,
              work.visits());
    const std::int64_t begin = work.own_matrix * own_rows * Config::kHeadDim;
    if constexpr (kKeysOwn) {
      rows.template store<false>(step.dk + begin, rows.first, own_rows, step.softmax_scale);
      rows.template store<false>(step.dv + begin, rows.second, own_rows, 1.0f);
    } else {
      if (work.visits() > 0) rows.template store<true>(step.dq + begin, rows.first, own_rows, 1.0f);
      add_pairs(step.counters, work.own_matrix == 0 ? rows.pairs : 0);
    }
  }
}

template <class Config>
void launch_owner(const BackwardStep& step, cudaStream_t stream) {
  const BackwardSide keys = side_of_keys(step), queries = side_of_queries(step);
  const BackwardSide& own = Config::kKeysOwn ? keys : queries;
  const BackwardSide& visiting = Config::kKeysOwn ? queries : keys;
  const std::int64_t batch = step.shape.batch;
  Maps maps;
  for (int i = 0; i < 2; ++i) {
    maps.own[i] = make_tensor_map(own.tensors[i], batch * own.heads, own.rows, Config::kHeadDim,
                                  Config::kOwn);
    maps.visitors[i] = make_tensor_map(visiting.tensors[i], batch * visiting.heads, visiting.rows,
                                       Config::kHeadDim, Config::kVisit);
  }
  const auto items = static_cast<unsigned>(tiles_for(own.rows, Config::kOwn) * own.heads * batch);
  // With multiprocessors to leave to others, no launch has more blocks than there are of the rest.
  const unsigned most =
      left_multiprocessors() > 0 ? static_cast<unsigned>(multiprocessors()) : items;
  using Storage = BackwardHopperStorage<Config>;
  static_assert(sizeof(Storage) <= 227 * 1024);
  for (unsigned first = 0; first < items; first += most)
    launch(backward_hopper<Config>,
           {dim3(std::min(most, items - first)), dim3(Config::kThreads), sizeof(Storage)}, stream,
           step, step.softmax_scale * kLog2e, first, maps);
}

// Sizes of the launch that owns queries. Three warpgroups hide more of exp and share each tile of
// visitors among more rows. Two have the registers for larger tiles, of which WGMMA reads fewer
// bytes for the same products.
constexpr TileShape kTiles[] = {{192, 64}, {128, 128}};

// The sizes of one instance: the launch that owns keys has sizes of its own, and each its stages.
struct Sizes {
  int key_rows, visiting_queries, key_stages, query_stages;
};
constexpr Sizes kSizes[][2] = {{{192, 64, 4, 4}, {128, 64, 4, 3}},  // [tile][head_dim 64, 128]
                               {{128, 128, 3, 4}, {128, 80, 4, 2}}};

void launch_step(const BackwardStep& step, DType dtype, int tile, cudaStream_t stream) {
  arm_hang_record("10_backward_hopper");
  visit_half_instance(dtype, step.shape.head_dim, [&]<class Element>(Element, auto head_dim) {
    visit_tile<std::size(kTiles)>(tile, [&](auto number) {
      constexpr Sizes kOf = kSizes[number()][head_dim() / 128];
      constexpr TileShape kTile = kTiles[number()];
      launch_owner<BackwardHopperConfig<Element, Owner::keys, kOf.key_rows, kOf.visiting_queries,
                                        head_dim(), kOf.key_stages>>(step, stream);
      launch_owner<BackwardHopperConfig<Element, Owner::queries, kTile.rows, kTile.keys, head_dim(),
                                        kOf.query_stages>>(step, stream);
    });
  });
}

}  // namespace

constinit const Kernel backward_hopper_kernel{
    .number = 10,
    .name = "backward_hopper",
    .idea = "TMA and WGMMA: the next scores are in flight under this tile's gradients",
    .limits = {.half = true, .hopper = true},
    .tiles = kTiles,
    .launch_backward = launch_step};

}  // namespace ringscope::cuda

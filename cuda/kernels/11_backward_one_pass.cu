// 11: the backward pass in one launch and five products, where 10 takes two launches and seven. A
// block owns 128 keys, and tiles of 64 queries visit it (backward_hopper.h):
//
//   S^T = K Q^T    dP^T = V dO^T    dV += P^T dO    dK += dS^T Q    dQ += dS K
//
// S^T and dP^T are computed once, so dQ of a tile of queries has a part from every block that it
// visits. What that takes:
//
//   - dS goes through shared memory, because in dQ = dS K it is the operand whose rows are queries.
//     Both consumers write their 64 keys, meet, and compute half of the columns of dQ each. There
//     are two such buffers, so that meeting once per visit is enough.
//   - dQ leaves through a buffer whose rows are padded, so that stores meet no bank twice, and a
//     warp of the producers adds it to memory, row by row (bulk_add).
//   - Parts are added in the order of the key tiles, so the same bits come out every time: each
//     tile of queries has a turn in memory, the number of the key tile that may add next. Blocks
//     take their keys from a counter in that same order, so whoever holds a turn is running, also
//     when other kernels hold multiprocessors. Under causal masks, that is longest first. Without
//     turns (rung 11a) parts are added as they come. A turn costs a visit one load and one store of 4
//     bytes beside the 32 KiB of dQ that it adds at head_dim 128, and the consumers no instruction,
//     so the repeatable way is the one that runs use.
//
// Products in order, and what a warpgroup computes meanwhile (n: number of the visit):
//
//   products   dV(n)  dK(n)             dQ(n)  S(n+1)              dP(n+1)
//   threads    dS(n)         dS out, meet             dQ(n) out            P(n+1)
//
// Registers at head_dim 128: dK and dV 64 + 64, S 32, dP or dQ 32, and P as an operand 16. So S
// begins when dK has ended, which frees dS, and runs behind dQ. Q and dO have barriers apart, so it
// does not wait for dO. Units and deltas of the queries are prepared once, by a small kernel that
// also sets the turns, and come by bulk copies.
//
// A block ends with its keys: another takes its place, which balances as a loop over a counter
// would. K and V have one buffer, so a loop could not fetch the next ones any earlier.
#include "cuda/base/launch.h"
#include "cuda/base/tensor_map.h"
#include "cuda/kernels/backward_hopper.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/ptx/registers.h"
#include "cuda/ptx/tma.h"

namespace ringscope::cuda {
namespace {

constexpr int kKeys = 128, kQueries = kTurnRows;
constexpr int kMeeting = 1;  // the named barrier of the consumers

// How BackwardStep's workspace is used.
struct Workspace {
  unsigned long long* taken;    // items that blocks have taken
  float (*notes)[2][kQueries];  // [batch * heads, tiles of queries]: units and deltas
  int* turns;                   // likewise: the key tile whose dQ comes next

  explicit Workspace(const BackwardStep& step) {
    auto* const bytes = static_cast<unsigned char*>(step.workspace);
    const std::int64_t tiles =
        std::int64_t{step.shape.batch} * step.shape.heads * tiles_for(step.shape.rows_q, kQueries);
    taken = reinterpret_cast<unsigned long long*>(bytes);
    notes = reinterpret_cast<float(*)[2][kQueries]>(bytes + 16);
    turns = reinterpret_cast<int*>(notes + tiles);
  }
};

// Fill the workspace. Grid: heads of tiles of queries, batch (TileAndHead), and at least one block.
__global__ void prepare(const BackwardStep step, const Workspace workspace) {
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) *workspace.taken = 0;
  const StepShape& shape = step.shape;
  if (shape.rows_q == 0) return;
  const auto [tile, head] = TileAndHead::of(blockIdx.x, shape.heads);
  const std::int64_t matrix = std::int64_t{blockIdx.y} * shape.heads + head;
  const std::int64_t at = matrix * tiles_for(shape.rows_q, kQueries) + tile;
  const int row = tile * kQueries + static_cast<int>(threadIdx.x);
  const QueryUnits query = query_units(step, matrix, row);
  workspace.notes[at][0][threadIdx.x] = query.unit;
  workspace.notes[at][1][threadIdx.x] = query.delta;
  if (threadIdx.x != 0) return;
  // The first key tile to take a turn is the first that some query from `row` on meets.
  int first = 0, last = tiles_for(shape.rows_k, kKeys);
  while (first < last) {
    const int middle = first + (last - first) / 2;
    const int end = (middle + 1) * kKeys < shape.rows_k ? (middle + 1) * kKeys : shape.rows_k;
    if (step.allowed_queries[end - 1].last <= row)
      first = middle + 1;
    else
      last = middle;
  }
  workspace.turns[at] = first;
}

template <class Element, int kHeadDim>
using OnePassConfig =
    BackwardHopperConfig<Element, Owner::keys, kKeys, kQueries, kHeadDim, kHeadDim == 64 ? 4 : 2>;

struct Maps {
  TensorMap keys[2], queries[2];
};

// Keys of one (batch, kv head), and the tiles of queries that visit them, those of one head of the
// group after those of another.
struct Work {
  RowTile own;
  int tile;                       // of keys
  int first_tile, last_tile;      // of queries that visit
  int last_turn;                  // tile after the last one with a turn to pass
  int first_matrix, last_matrix;  // of queries, batch * heads + head
  std::int64_t own_matrix;

  __device__ __forceinline__ Work(const BackwardStep& step, unsigned long long item) {
    const StepShape& shape = step.shape;
    const auto batch = static_cast<unsigned>(shape.batch),
               heads = static_cast<unsigned>(shape.heads_kv);
    const int group = shape.heads / shape.heads_kv;
    tile = static_cast<int>(item / (batch * heads));
    own_matrix = static_cast<std::int64_t>(item % (batch * heads));
    own = RowTile::at(tile, kKeys, shape.rows_k, step.allowed_queries);
    first_tile = own.first_visitor(kQueries);
    last_tile = own.last_visitor(kQueries);
    // Keys that no query meets still stand between others, and may have a turn at one tile.
    const int end = tiles_for(own.needed.last, kQueries);
    last_turn = end > last_tile ? end : last_tile;
    first_matrix = static_cast<int>(own_matrix) * group;
    last_matrix = first_matrix + group;
  }

  __device__ __forceinline__ int visits() const {
    return (last_tile - first_tile) * (last_matrix - first_matrix);
  }
};

// `full` and `empty` of the base are those of Q and its notes.
template <class Config>
struct OnePassStorage : BackwardHopperStorage<Config> {
  alignas(kSwizzleBytes) typename Config::Element ds[2][kKeys * kQueries];  // [keys][queries]
  alignas(16) float dq[kQueries][Config::kHeadDim + 8];
  ptx::Barrier dout_full[Config::kStages], dout_empty[Config::kStages];
  ptx::Barrier dq_full, dq_empty;
  Work work;  // not in registers, of which producers have few
};

template <class Config>
__device__ __forceinline__ void init_barriers(OnePassStorage<Config>& shared) {
  constexpr int kWarps = Config::kConsumers * 4;
  ptx::barrier_init(shared.own_full, 1);
  for (int stage = 0; stage < Config::kStages; ++stage) {
    ptx::barrier_init(shared.full[stage], 1);
    ptx::barrier_init(shared.dout_full[stage], 1);
    ptx::barrier_init(shared.empty[stage], kWarps);
    ptx::barrier_init(shared.dout_empty[stage], kWarps);
  }
  ptx::barrier_init(shared.dq_full, Config::kConsumers * kWarpgroupThreads);
  ptx::barrier_init(shared.dq_empty, 32);
  ptx::fence_barrier_init();
}

// Start the copies. One thread does.
template <class Config>
__device__ __forceinline__ void produce(OnePassStorage<Config>& shared, const BackwardStep& step,
                                        const Workspace& workspace, const Maps& maps) {
  const Work& work = shared.work;
  constexpr std::uint32_t kNoteBytes = 2 * kQueries * sizeof(float);
  ptx::barrier_arrive_expecting(shared.own_full, 2 * Config::kOwnBytes);
  for (int i = 0; i < 2; ++i)
    ptx::tma_load(shared.own[i], maps.keys[i], 0, work.own.first, 0,
                  static_cast<int>(work.own_matrix), shared.own_full);
  const int tiles = tiles_for(step.shape.rows_q, kQueries);
  StagePlace<Config::kStages> at;
#pragma unroll 1
  for (int matrix = work.first_matrix; matrix < work.last_matrix; ++matrix) {
#pragma unroll 1
    for (int tile = work.first_tile; tile < work.last_tile; ++tile) {
      const int first = tile * kQueries, stage = at.stage;
      auto& notes = shared.notes[stage];
      // dV is done before dK, so the room of dO is free first.
      ptx::barrier_wait(shared.dout_empty[stage], at.parity ^ 1);
      ptx::barrier_arrive_expecting(shared.dout_full[stage], Config::kVisitBytes);
      ptx::tma_load(shared.visitors[stage][1], maps.queries[1], 0, first, 0, matrix,
                    shared.dout_full[stage]);
      ptx::barrier_wait(shared.empty[stage], at.parity ^ 1);
      notes.first_row = first;
      notes.masked = !work.own.is_full(first, first + kQueries);
      ptx::barrier_arrive_expecting(shared.full[stage], Config::kVisitBytes + kNoteBytes);
      ptx::tma_load(shared.visitors[stage][0], maps.queries[0], 0, first, 0, matrix,
                    shared.full[stage]);
      ptx::bulk_load(notes.unit, workspace.notes[std::int64_t{matrix} * tiles + tile], kNoteBytes,
                     shared.full[stage]);
      at.advance();
    }
  }
}

// Add dQ of every visit to memory. One warp does.
template <class Config, bool kInTurn>
__device__ __forceinline__ void add_dq(OnePassStorage<Config>& shared, const BackwardStep& step,
                                       const Workspace& workspace) {
  const Work& work = shared.work;
  const int lane = static_cast<int>(threadIdx.x) % 32, rows_q = step.shape.rows_q;
  std::uint32_t parity = 0;
#pragma unroll 1
  for (int matrix = work.first_matrix; matrix < work.last_matrix; ++matrix) {
#pragma unroll 1
    for (int tile = work.first_tile; tile < (kInTurn ? work.last_turn : work.last_tile); ++tile) {
      int* const turn = workspace.turns + (matrix * tiles_for(rows_q, kQueries) + tile);
      const bool is_visited = tile < work.last_tile;
      if (is_visited) ptx::barrier_wait(shared.dq_full, parity);
      if constexpr (kInTurn) ptx::await_memory_turn(turn, work.tile);
      if (is_visited) {
#pragma unroll 1
        for (int row = lane; row < kQueries && tile * kQueries + row < rows_q; row += 32) {
          const std::int64_t at = std::int64_t{matrix} * rows_q + (tile * kQueries + row);
          ptx::bulk_add(step.dq + at * Config::kHeadDim, shared.dq[row],
                        Config::kHeadDim * sizeof(float));
        }
        ptx::bulk_commit();
        ptx::bulk_wait_read();
        ptx::barrier_arrive(shared.dq_empty);
        ptx::bulk_wait();
        parity ^= 1;
      }
      __syncwarp();
      if (kInTurn && lane == 0) ptx::pass_memory_turn(turn, work.tile + 1);
    }
  }
}

// Count tiles and, for the first head, pairs. One warp does.
__device__ __forceinline__ void count(const BackwardStep& step, const Work& work) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  unsigned pairs = 0;
  if (work.own_matrix == 0)
#pragma unroll 1
    for (int key = lane; key < work.own.rows; key += 32)
      pairs += overlap(step.allowed_queries[work.own.first + key], work.first_tile * kQueries,
                       work.last_tile * kQueries);
  add_pairs(step.counters, pairs);
  if (lane != 0) return;
  int full = 0;
#pragma unroll 1
  for (int tile = work.first_tile; tile < work.last_tile; ++tile)
    full += work.own.is_full(tile * kQueries, (tile + 1) * kQueries);
  const int heads = work.last_matrix - work.first_matrix;
  add_tiles(step.counters, heads * full, work.visits() - heads * full,
            heads * tiles_for(step.shape.rows_q, kQueries) - work.visits());
}

// Do one consumer warpgroup's work: its 64 keys, and its half of dQ's columns.
template <class Config>
__device__ __forceinline__ void consume(BackwardHopperRows<Config>& rows,
                                        OnePassStorage<Config>& shared, int consumer,
                                        const RowInterval* table, int rows_k, float exponent_scale,
                                        int visits) {
  using Element = typename Config::Element;
  constexpr int kHeadDim = Config::kHeadDim, kColumns = kHeadDim / 2;
  constexpr int kPanelBytes = kKeys * kRowBytes;
  const int first_column = consumer * kColumns;
  const std::uint64_t k_columns = columns_descriptor(
      ptx::shared_address(shared.own[0]) + piece_offset(first_column, kKeys), kPanelBytes);
  const std::uint64_t ds_columns =
      columns_descriptor(ptx::shared_address(shared.ds[0]), kPanelBytes);
  float dq[kColumns / 2];
  int buffer = 0;
  std::uint32_t dq_parity = 0;
  StagePlace<Config::kStages> at;

  // S is done and dP in flight, so compute P under dP.
  const auto probabilities = [&] {
    ptx::wgmma_done(rows.s);
    rows.exponentials(shared, at.stage, exponent_scale);
    if (shared.notes[at.stage].masked) rows.mask(table, rows_k, shared.notes[at.stage].first_row);
    ptx::wgmma_wait<0>();
    ptx::wgmma_done(rows.dp);
  };
  // Let the other operand of dQ be seen: dS of these keys, in the layout of a tile of Q.
  const auto write_ds = [&] {
    const int thread = ptx::thread_index() % kWarpgroupThreads;
#pragma unroll
    for (int i = 0; i < kQueries / 2; i += 2) {
      const int key = consumer * kWarpgroupRows + accumulator_row(thread, i);
      const int place = key * kRowBytes + (accumulator_column(thread, i) * 2 ^ key % 8 * 16);
      ptx::store_for_async(reinterpret_cast<std::uint32_t*>(shared.ds[buffer])[place / 4],
                           rows.ds[i / 8][i / 2 % 4]);
    }
    ptx::fence_proxy_async();
    ptx::named_barrier_sync(kMeeting, Config::kConsumers * kWarpgroupThreads);
  };
  const auto start_dq = [&] {
#pragma unroll
    for (int key = 0; key < kKeys; key += kProductDepth)
      ptx::wgmma_shared<Element, kColumns, ptx::Major::mn, ptx::Major::mn>(
          dq, advance(ds_columns, buffer * kPanelBytes + key * kRowBytes),
          advance(k_columns, key * kRowBytes), key != 0);
    ptx::wgmma_commit();
    buffer ^= 1;
  };
  const auto write_dq = [&] {
    ptx::wgmma_done(dq);
    ptx::barrier_wait(shared.dq_empty, dq_parity ^ 1);
    dq_parity ^= 1;
    const int thread = ptx::thread_index() % kWarpgroupThreads;
#pragma unroll
    for (int i = 0; i < kColumns / 2; i += 2)
      ptx::store_for_async(
          reinterpret_cast<float2&>(
              shared.dq[accumulator_row(thread, i)][first_column + accumulator_column(thread, i)]),
          float2{dq[i], dq[i + 1]});
    ptx::fence_proxy_async();
    ptx::barrier_arrive(shared.dq_full);
  };
  const auto release = [](ptx::Barrier& empty) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::barrier_arrive(empty);
  };

  ptx::barrier_wait(shared.own_full, 0);
  ptx::barrier_wait(shared.full[at.stage], at.parity);
  ptx::wgmma_fence();
  rows.start_product(rows.s, 0, shared, at.stage);
  ptx::barrier_wait(shared.dout_full[at.stage], at.parity);
  ptx::wgmma_fence();
  rows.start_product(rows.dp, 1, shared, at.stage);
  ptx::wgmma_wait<1>();
  probabilities();
  while (true) {
    pack_weights<Element>(rows.p, rows.s);
    ptx::wgmma_fence();
    rows.start_gradient(rows.second, rows.p, 1, shared, at.stage);
    rows.differences(shared, at.stage);
    pack_weights<Element>(rows.ds, rows.dp);
    ptx::wgmma_fence();
    rows.start_gradient(rows.first, rows.ds, 0, shared, at.stage);
    write_ds();
    ptx::wgmma_wait<1>();  // dV
    ptx::wgmma_done(rows.second);
    release(shared.dout_empty[at.stage]);
    ptx::wgmma_fence();
    start_dq();
    if (--visits == 0) break;
    const int before = at.stage;
    at.advance();
    ptx::wgmma_wait<1>();  // dK
    ptx::wgmma_done(rows.first);
    release(shared.empty[before]);
    ptx::barrier_wait(shared.full[at.stage], at.parity);
    ptx::wgmma_fence();
    rows.start_product(rows.s, 0, shared, at.stage);
    ptx::wgmma_wait<1>();  // dQ
    write_dq();
    ptx::barrier_wait(shared.dout_full[at.stage], at.parity);
    ptx::wgmma_fence();
    rows.start_product(rows.dp, 1, shared, at.stage);
    ptx::wgmma_wait<1>();  // S
    probabilities();
  }
  ptx::wgmma_wait<0>();
  ptx::wgmma_done(rows.first);
  write_dq();
}

// Grid: as many blocks as there are items, key tiles x kv heads x batch.
template <class Config, bool kInTurn>
__global__ void __launch_bounds__(Config::kThreads, 1)
    backward_one_pass(const BackwardStep step, const float exponent_scale,
                      const Workspace workspace, const __grid_constant__ Maps maps) {
  auto& shared = shared_memory<OnePassStorage<Config>>();
  if (threadIdx.x == 0) {
    init_barriers(shared);
    shared.work = Work(step, atomicAdd(workspace.taken, 1ull));
  }
  __syncthreads();

  const Work& work = shared.work;
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    ptx::release_registers<Config::kProducerRegisters>();
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (warp == 0) {
      if (threadIdx.x == 0 && work.visits() > 0) produce(shared, step, workspace, maps);
    } else if (warp == 1) {
      add_dq<Config, kInTurn>(shared, step, workspace);
    } else if (warp == 2) {
      count(step, work);
    }
  } else {
    ptx::claim_registers<Config::kConsumerRegisters>();
    const int consumer = warpgroup - 1, rows_k = step.shape.rows_k;
    BackwardHopperRows<Config> rows(shared, consumer, work.own);
    if (work.visits() > 0)
      consume(rows, shared, consumer, step.allowed_queries, rows_k, exponent_scale, work.visits());
    const std::int64_t begin = work.own_matrix * rows_k * Config::kHeadDim;
    rows.template store<false>(step.dk + begin, rows.first, rows_k, step.softmax_scale);
    rows.template store<false>(step.dv + begin, rows.second, rows_k, 1.0f);
  }
}

constexpr TileShape kTiles[] = {{kQueries, kKeys}};

template <bool kInTurn>
void launch_step(const BackwardStep& step, DType dtype, int tile, cudaStream_t stream) {
  arm_hang_record("11_backward_one_pass");
  const StepShape& shape = step.shape;
  const BackwardSide sides[2] = {side_of_keys(step), side_of_queries(step)};
  const Workspace workspace(step);
  dim3 grid = TileAndHead::grid(tiles_for(shape.rows_q, kQueries), shape.heads, shape.batch);
  if (shape.rows_q == 0) grid = dim3(1);
  launch(prepare, {grid, dim3(kQueries)}, stream, step, workspace);
  visit_half_instance<std::size(kTiles)>(
      dtype, shape.head_dim, tile, [&]<class Element>(Element, auto head_dim, auto) {
        using Config = OnePassConfig<Element, head_dim()>;
        using Storage = OnePassStorage<Config>;
        static_assert(sizeof(Storage) <= 227 * 1024);
        Maps maps;
        for (int i = 0; i < 2; ++i) {
          const auto map_of = [&](const BackwardSide& side, int rows) {
            return make_tensor_map(side.tensors[i], std::int64_t{shape.batch} * side.heads,
                                   side.rows, head_dim(), rows);
          };
          maps.keys[i] = map_of(sides[0], kKeys);
          maps.queries[i] = map_of(sides[1], kQueries);
        }
        if constexpr (kInTurn || (std::is_same_v<Element, bf16> && head_dim() == 128))
          launch(backward_one_pass<Config, kInTurn>,
                 {TileAndHead::grid(tiles_for(shape.rows_k, kKeys), shape.heads_kv, shape.batch),
                  dim3(Config::kThreads), sizeof(Storage)},
                 stream, step, step.softmax_scale * kLog2e, workspace, maps);
      });
}

}  // namespace

constinit const Kernel backward_one_pass_kernel{
    .number = 11,
    .name = "backward_one_pass",
    .idea = "five products: dQ is summed in memory, in the order of the keys",
    .limits = {.half = true, .hopper = true},
    .tiles = kTiles,
    .launch_backward = launch_step<true>};

constinit const Kernel backward_any_order{
    .number = 11,
    .rung = 'a',
    .name = "any_order",
    .idea = "five products: dQ is summed in memory as it comes",
    .limits = kRungLimits,
    .repeats_bits = false,
    .tiles = kTiles,
    .launch_backward = launch_step<false>};

}  // namespace ringscope::cuda

// 11: the backward pass of bf16 and f16 with Hopper's own instructions, in the five products of 09. A
// block owns 128 keys, and tiles of 64 queries visit it (of 32 at head_dim 192):
//
//   S^T = K Q^T    dP^T = V dO^T    dV += P^T dO    dK += dS^T Q    dQ^T += K^T dS^T
//
// S^T and dP^T are computed once, so dQ of a tile of queries has a part from every block that it
// visits. What that takes:
//
//   - dS^T goes through shared memory, because in dQ^T = K^T dS^T it is summed over the keys of both
//     consumers. They write their 64 keys, meet, and compute half of dQ each.
//   - dQ leaves through two buffers, in the copy engine's swizzle, so that stores meet no bank twice. Two
//     threads of the producers add them to memory, each the whole tile by one instruction (tma_add).
//     That a buffer is full also says that both consumers are done with dS, whose place is free then.
//   - Parts are added in the order of the key tiles, so the same bits come out every time: each
//     tile of queries has a turn in memory, the number of the key tile that may add next. In a first
//     step, the first to come stores its part, so nobody sets dQ to zero before. The order
//     of visits keeps blocks from waiting for them (one_pass.h). Without turns (rung 11a) parts are
//     added as they come. To see its turn, add, and pass the turn on takes a thread some 3,000 clocks
//     on an H100, of which a visit has 4,100. Two threads keep up with that, and consumers spend no
//     instruction on it.
//   - The grid has one block per multiprocessor. Blocks take keys from a counter, in the order of
//     turns, so whoever holds a turn is running, also when other kernels hold multiprocessors. All
//     query heads of a kv head visit in one item. While the consumers store dK and dV, the next
//     item's K, V, Q and dO come.
//   - P^T and dS^T appear where dV and dK need them as operands: seen from the keys, accumulators and
//     operands have the same layout in registers.
//
// Products in order, and what a warpgroup computes meanwhile (n: number of the visit):
//
//   products   dV(n)  dK(n)             dQ(n)  S(n+1)              dP(n+1)
//   threads    dS(n)         dS out, meet             dQ(n) out            P(n+1)
//
// Registers at head_dim 128: dK and dV 64 + 64, S 32, dP or dQ 32, and P as an operand 16; at
// head_dim 192 with V of 128: 96 + 64, 16, 16 or 24, and 8. S begins when dK has ended, which frees
// dS, and runs behind dQ. Q and dO have barriers apart, so it does not wait for dO. Units and
// deltas of the queries are prepared once, by a small kernel that also sets the turns, and come by
// bulk copies: P = exp2(s scale log2(e) - unit), dS = P (dP - delta).
//
// Full tiles take no mask. A masked P is 0, but 0 * NaN is NaN: visitors that share a tile with one
// that some own row meets are read. Rows past the end are zeros.
#include <algorithm>

#include "cuda/base/launch.h"
#include "cuda/base/tensor_map.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/kernels/one_pass.h"
#include "cuda/kernels/stamps.h"
#include "cuda/kernels/warpgroup.h"
#include "cuda/ptx/registers.h"
#include "cuda/ptx/tma.h"
#include "cuda/ptx/watchdog.h"

namespace ringscope::cuda {
namespace {

// What instances differ in. The kernel has Plan; the others are measured beside it.
struct Plan {
  static constexpr bool in_turn = true;   // otherwise dQ is added as it comes
  static constexpr bool by_head = false;  // an item has one query head; those of a group take turns
  static constexpr bool warps_arrive = false;  // at dq_full, once for all their threads
};
struct AnyOrder : Plan {
  static constexpr bool in_turn = false;
};
struct ByHead : Plan {
  static constexpr bool by_head = true;
};
struct WarpsArrive : Plan {
  static constexpr bool warps_arrive = true;
};

constexpr int kKeys = kOnePassKeys;
constexpr int kMeeting = 1;  // the named barrier of the consumers
constexpr int kAdders = 2;   // threads that add dQ to memory, each from a buffer of its own
constexpr int kDqColumns = kRowBytes / 4;  // of a panel

struct Maps {
  TensorMap keys[2], queries[2], dq;
};

template <int kQueries, bool kByHead>
struct Work : OnePassItem<kQueries, kByHead> {
  unsigned visits_before;  // of the block's earlier items
  bool is_over;            // there are no more items, and the rest means nothing
};

// What comes with a tile of queries: the units and deltas of its rows, and what the producer stores
// beside them, so that consumers need no registers for it.
template <int kQueries>
struct VisitorNotes {
  alignas(16) float unit[kQueries];
  alignas(16) float delta[kQueries];
  std::int32_t first_row;
  std::int32_t masked;
};

// One compiled instance.
template <class Element_, int kHeadDim_, int kValueDim_, int kQueries_, class Plan_>
struct OnePassConfig : WarpgroupRoles {
  using Element = Element_;
  using Workspace = OnePassWorkspace<kQueries_>;
  using Work = ringscope::cuda::Work<kQueries_, Plan_::by_head>;
  using Plan = Plan_;
  static constexpr int kHeadDim = kHeadDim_, kValueDim = kValueDim_, kQueries = kQueries_;
  static constexpr int kStages = kHeadDim == 128 ? 2 : 4, kDqPanels = kHeadDim / kDqColumns;

  // A consumer computes half of dQ: half of the columns where that is 64, otherwise all columns, 64 at
  // a time, for half of the queries.
  static constexpr bool kHalfColumns = kHeadDim == 2 * kWarpgroupRows;
  static constexpr int kDqParts = kHalfColumns ? 1 : kHeadDim / kWarpgroupRows;
  static constexpr int kDqQueries = kHalfColumns ? kQueries : kQueries / 2;

  // softmax_scale is part of dS, where it costs nothing, P (scale dP - scale delta). The small values of
  // f16 have fewer bits, so there sums are scaled instead.
  static constexpr bool kScalesDs = std::is_same_v<Element, bf16>;
  static constexpr float factor_of_ds(float scale) { return kScalesDs ? scale : 1; }
  static constexpr float factor_of_sums(float scale) { return kScalesDs ? 1 : scale; }
};

template <class Config>
struct OnePassStorage {
  using Element = typename Config::Element;
  static constexpr int kQueries = Config::kQueries;
  using K = SharedTile<Element, kKeys, Config::kHeadDim>;
  using V = SharedTile<Element, kKeys, Config::kValueDim>;

  struct Visitors {
    SharedTile<Element, kQueries, Config::kHeadDim> q;
    SharedTile<Element, kQueries, Config::kValueDim> dout;
  };
  K k;
  V v;
  Visitors visitors[Config::kStages];
  VisitorNotes<kQueries> notes[Config::kStages];
  SharedTile<Element, kQueries, kKeys> ds;  // [keys / 64][queries][64 keys]
  alignas(kSwizzleBytes) float dq[kAdders][Config::kDqPanels][kQueries][kDqColumns];
  ptx::Barrier own_full, own_empty;
  ptx::Barrier full[Config::kStages], empty[Config::kStages];  // of Q and its notes
  ptx::Barrier dout_full[Config::kStages], dout_empty[Config::kStages];
  ptx::Barrier dq_full[kAdders], dq_empty[kAdders];
  ptx::Barrier work_full[2], work_empty[2];
  // This item's and the next one's; not in registers, of which producers have few.
  typename Config::Work work[2];
};
template <class Config>
__device__ __forceinline__ void init_barriers(OnePassStorage<Config>& shared) {
  constexpr int kWarps = Config::kConsumers * 4;
  ptx::barrier_init(shared.own_full, 1);
  ptx::barrier_init(shared.own_empty, kWarps);
  for (int stage = 0; stage < Config::kStages; ++stage) {
    ptx::barrier_init(shared.full[stage], 1);
    ptx::barrier_init(shared.dout_full[stage], 1);
    ptx::barrier_init(shared.empty[stage], kWarps);
    ptx::barrier_init(shared.dout_empty[stage], kWarps);
  }
  for (int i = 0; i < kAdders; ++i) {
    ptx::barrier_init(shared.dq_full[i],
                      Config::Plan::warps_arrive ? kWarps : Config::kConsumers * kWarpgroupThreads);
    ptx::barrier_init(shared.dq_empty[i], 1);
  }
  for (int i = 0; i < 2; ++i) {
    ptx::barrier_init(shared.work_full[i], 1);
    ptx::barrier_init(shared.work_empty[i], kWarps + kAdders + 1);  // and who counts
  }
  ptx::fence_barrier_init();
}

// Arrive once for the running warp, after all of its lanes.
__device__ __forceinline__ void release(ptx::Barrier& empty) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) ptx::barrier_arrive(empty);
}

// Return where visit `visit` of a block's visits lies.
template <class Config>
__device__ __forceinline__ StagePlace<Config::kStages> place_of(unsigned visit) {
  return {static_cast<int>(visit % Config::kStages), visit / Config::kStages % 2};
}

// Return the parity of the phase in which visit `visit` fills its buffer of dQ. Before the first visit
// stands number -1, whose phase is the one that a fresh barrier counts as over.
__host__ __device__ __forceinline__ constexpr std::uint32_t dq_parity(unsigned visit) {
  return visit / kAdders % 2;
}
static_assert(dq_parity(0u - 1) == 1);

// Take items and start their copies. One thread does.
template <class Config>
__device__ __forceinline__ void produce(OnePassStorage<Config>& shared, const BackwardStep& step,
                                        const typename Config::Workspace& workspace,
                                        const Maps& maps) {
  constexpr int kQueries = Config::kQueries;
  constexpr std::uint32_t kNoteBytes = 2 * kQueries * sizeof(float);
  unsigned visit = 0;  // of all items
#pragma unroll 1
  for (unsigned n = 0;; ++n) {
    ptx::barrier_wait(shared.work_empty[n % 2], n / 2 % 2 ^ 1);
    auto& work = shared.work[n % 2];
    const unsigned number = workspace.take();
    work.is_over = number >= work.items(step.shape);
    if (!work.is_over) work.set(step, number, workspace.at_once);
    work.visits_before = visit;
    ptx::barrier_arrive(shared.work_full[n % 2]);
    if (work.is_over) return;
    ptx::barrier_wait(shared.own_empty, n % 2 ^ 1);
    ptx::barrier_arrive_expecting(shared.own_full, sizeof(shared.k) + sizeof(shared.v));
    ptx::tma_load(&shared.k, maps.keys[0], 0, work.own.first, 0, work.own_matrix, shared.own_full);
    ptx::tma_load(&shared.v, maps.keys[1], 0, work.own.first, 0, work.own_matrix, shared.own_full);
    work.for_each_visit(work.last_tile, [&](int matrix, int tile) {
      const int first = tile * kQueries;
      const std::int64_t place =
          std::int64_t{matrix} * tiles_for(step.shape.rows_q, kQueries) + tile;
      const auto [stage, parity] = place_of<Config>(visit++);
      auto& notes = shared.notes[stage];
      auto& [q, dout] = shared.visitors[stage];
      // dV is done before dK, so the room of dO is free first.
      ptx::barrier_wait(shared.dout_empty[stage], parity ^ 1);
      ptx::barrier_arrive_expecting(shared.dout_full[stage], sizeof(dout));
      ptx::tma_load(&dout, maps.queries[1], 0, first, 0, matrix, shared.dout_full[stage]);
      ptx::barrier_wait(shared.empty[stage], parity ^ 1);
      notes.first_row = first;
      notes.masked = !work.own.is_full(first, first + kQueries);
      ptx::barrier_arrive_expecting(shared.full[stage], sizeof(q) + kNoteBytes);
      ptx::tma_load(&q, maps.queries[0], 0, first, 0, matrix, shared.full[stage]);
      ptx::bulk_load(notes.unit, workspace.notes[place], kNoteBytes, shared.full[stage]);
    });
  }
}

// Call use(work, n) for every item n of the block, in whole warps.
template <class Config, class Use>
__device__ __forceinline__ void for_each_item(OnePassStorage<Config>& shared, const Use& use) {
#pragma unroll 1
  for (unsigned n = 0;; ++n) {
    ptx::barrier_wait(shared.work_full[n % 2], n / 2 % 2);
    const auto& work = shared.work[n % 2];
    if (work.is_over) return;
    use(work, n);
    release(shared.work_empty[n % 2]);
  }
}

// Add dQ of every other visit of an item to memory. One thread does.
template <class Config>
__device__ __forceinline__ void add_dq(OnePassStorage<Config>& shared, const BackwardStep& step,
                                       const typename Config::Workspace& workspace,
                                       const Maps& maps, const typename Config::Work& work,
                                       unsigned adder) {
  constexpr bool kInTurn = Config::Plan::in_turn;
  const int tiles = tiles_for(step.shape.rows_q, Config::kQueries);
  unsigned visit = work.visits_before;
  work.for_each_visit(kInTurn ? work.last_turn : work.last_tile, [&](int matrix, int tile) {
    // A tile that no key of the item meets has a turn and no dQ.
    const bool meets = tile < work.last_tile;
    if (meets ? visit++ % kAdders != adder : adder != 0) return;
    int* const turn = workspace.turns + (matrix * tiles + tile);
    if constexpr (kInTurn) {
      ptx::await_memory_turn(turn, work.tile);
      ptx::order_bulk_additions();
    }
    if (meets) {
      ptx::barrier_wait(shared.dq_full[adder], dq_parity(visit - 1));
      tile >= work.first_store
          ? ptx::tma_store(maps.dq, shared.dq[adder], 0, tile * Config::kQueries, 0, matrix)
          : ptx::tma_add(maps.dq, shared.dq[adder], 0, tile * Config::kQueries, 0, matrix);
      ptx::bulk_commit();
      ptx::bulk_wait_read();
      ptx::barrier_arrive(shared.dq_empty[adder]);
      if constexpr (kInTurn) ptx::bulk_wait();
    }
    if constexpr (kInTurn) ptx::pass_memory_turn(turn, work.tile + 1);
  });
}

// One warpgroup's 64 keys. Its 128 threads call all functions together. In an accumulator, each
// thread has two rows, h = 0 and 1, eight apart (hopper_layout.h).
template <class Config>
struct KeyRows {
  using Element = typename Config::Element;
  using Storage = OnePassStorage<Config>;
  static constexpr int kQueries = Config::kQueries;

  Tile<1, kQueries> s;   // S, then P
  Tile<1, kQueries> dp;  // dP, then dS
  Weights<kQueries> p;   // P rounded, as an operand
  Weights<kQueries> ds;  // dS
  Tile<1, Config::kHeadDim> dk = {};
  Tile<1, Config::kValueDim> dv = {};
  Tile<1, Config::kDqQueries> dq[Config::kDqParts];  // of the half that this warpgroup computes
  int row;                // row h = 0 in the tensor; rows past the end are computed, not stored
  std::uint32_t k_start;  // shared address of the 64 rows of K

  __device__ __forceinline__ KeyRows(const Storage& shared, int warpgroup, const RowTile& own)
      : row(own.first + warpgroup * kWarpgroupRows +
            accumulator_row(ptx::thread_index() % kWarpgroupThreads, 0)),
        k_start(ptx::shared_address(&shared.k) + warpgroup * kWarpgroupRows * kRowBytes) {}

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }

  // Start S^T = K Q^T, and dP^T = V dO^T.
  __device__ __forceinline__ void start_s(const auto& q) {
    start_row_product<typename Storage::K>(s, rows_descriptor(k_start), q);
  }
  __device__ __forceinline__ void start_dp(const auto& dout) {
    constexpr std::uint32_t kBytesOfK = sizeof(Storage::k);  // V comes after K
    start_row_product<typename Storage::V>(dp, rows_descriptor(k_start + kBytesOfK), dout);
  }

  // Return two neighbouring columns' units or deltas.
  static __device__ __forceinline__ float2 of_columns(const float* notes, int column) {
    return *reinterpret_cast<const float2*>(notes + tile_column(lane()) + column);
  }

  // P = exp2(S exponent_scale - unit)
  __device__ __forceinline__ void exponentials(const VisitorNotes<kQueries>& notes,
                                               float exponent_scale) {
    s.for_each_pair([&](float& left, float& right, int, int, int column) {
      const float2 unit = of_columns(notes.unit, column);
      left = ptx::exp2_approx(fmaf(left, exponent_scale, -unit.x));
      right = ptx::exp2_approx(fmaf(right, exponent_scale, -unit.y));
    });
  }

  // Set P of pairs that the mask forbids to 0. `first_visitor` is the tile's first row.
  __device__ __forceinline__ void mask(const RowInterval* table, int own_rows, int first_visitor) {
    s.mask(lane(), 0, [&](int, int h) -> RowInterval {
      const RowInterval meets = row + 8 * h < own_rows ? table[row + 8 * h] : RowInterval{0, 0};
      return {meets.first - first_visitor, meets.last - first_visitor};
    });
  }

  // dS = P (factor dP - delta). Deltas come with the factor.
  __device__ __forceinline__ void differences(const VisitorNotes<kQueries>& notes, float factor) {
    dp.for_each_pair([&](float& left, float& right, int, int, int column) {
      const float2 delta = of_columns(notes.delta, column);
      left = fmaf(left, factor, -delta.x);
      right = fmaf(right, factor, -delta.y);
    });
    dp.multiply(s);
  }

  // Set `to` to factor * gradient, or, for all but the first head of a group, add the gradient, which has
  // the factor. `to` is row 0 of the matrix.
  template <int kWidth>
  __device__ __forceinline__ void store(float* to, Tile<1, kWidth>& gradient, int own_rows,
                                        float factor, int head) const {
    for_each_row<1>([&](int, int h) {
      const bool exists = row + 8 * h < own_rows;
      float* const place = to + static_cast<std::int64_t>(row + 8 * h) * kWidth;
      if constexpr (Config::Plan::by_head)
        if (head > 0) return gradient.add_to(0, h, lane(), place, exists);
      if (exists) gradient.store(0, h, lane(), place, factor);
    });
  }
};

// A visit, as one consumer warpgroup sees it: its 64 keys, and its half of dQ. consume() has the order.
template <class Config, class Stamps>
struct Visit {
  using Element = typename Config::Element;
  static constexpr int kQueries = Config::kQueries, kDqQueries = Config::kDqQueries;

  KeyRows<Config>& rows;
  OnePassStorage<Config>& shared;
  const BackwardStep& step;
  const typename Config::Work& work;
  Stamps& stamps;
  const int consumer;
  const float exponent_scale;
  unsigned number;  // among all of the block
  const unsigned last;

  __device__ __forceinline__ int stage() const { return place_of<Config>(number).stage; }
  __device__ __forceinline__ const auto& notes() const { return shared.notes[stage()]; }
  // Where this half of dQ begins. Where registers are short, the consumer's number is read anew.
  __device__ __forceinline__ int first_column() const {
    return Config::kHalfColumns ? consumer * kWarpgroupRows : 0;
  }
  __device__ __forceinline__ int first_query() const {
    return Config::kHalfColumns    ? 0
           : Config::kDqParts == 1 ? consumer * kDqQueries
                                   : (ptx::thread_index() / kWarpgroupThreads - 1) * kDqQueries;
  }
  __device__ __forceinline__ void ended(KernelPart part, unsigned visit) {
    const unsigned of_item = visit - work.visits_before;
    stamps.end(part, work.visiting_tile(of_item),
               static_cast<int>(of_item % static_cast<unsigned>(work.heads())));
  }

  // S^T of this visit or the next, and dP^T.
  __device__ __forceinline__ void start_s(unsigned visit) {
    const auto [its_stage, parity] = place_of<Config>(visit);
    ptx::barrier_wait(shared.full[its_stage], parity);
    ended(KernelPart::wait_queries, visit);
    ptx::wgmma_fence();
    rows.start_s(shared.visitors[its_stage].q);
  }
  __device__ __forceinline__ void start_dp() {
    const auto [its_stage, parity] = place_of<Config>(number);
    ptx::barrier_wait(shared.dout_full[its_stage], parity);
    ended(KernelPart::wait_out_gradients, number);
    ptx::wgmma_fence();
    rows.start_dp(shared.visitors[its_stage].dout);
  }
  __device__ __forceinline__ void finish_s() {
    ptx::wgmma_wait<1>();
    ended(KernelPart::scores, number);
    finish(rows.s);
  }
  __device__ __forceinline__ void find_p() {
    rows.exponentials(notes(), exponent_scale);
    if (notes().masked) rows.mask(step.allowed_queries, step.shape.rows_k, notes().first_row);
    ended(KernelPart::softmax, number);
  }
  __device__ __forceinline__ void finish_dp() {
    ptx::wgmma_wait<0>();
    finish(rows.dp);
    ended(KernelPart::weight_gradients, number);
  }
  __device__ __forceinline__ void start_dv() {
    pack_weights<Element>(rows.p, rows.s);
    ptx::wgmma_fence();
    start_column_product(rows.dv, rows.p, shared.visitors[stage()].dout);
  }
  __device__ __forceinline__ void find_ds() {
    rows.differences(notes(), Config::factor_of_ds(step.softmax_scale));
    pack_weights<Element>(rows.ds, rows.dp);
  }
  __device__ __forceinline__ void start_dk() {
    ptx::wgmma_fence();
    start_column_product(rows.dk, rows.ds, shared.visitors[stage()].q);
  }
  // Let dS^T of these keys be seen, in the layout of a tile of K: a row for each query.
  __device__ __forceinline__ void write_ds() {
    ptx::barrier_wait(shared.dq_full[(number - 1) % kAdders], dq_parity(number - 1));
    const int thread = ptx::thread_index() % kWarpgroupThreads, square = thread / 8 % 4;
    const int query = square / 2 * 8 + thread % 8, unit = thread / 32 * 2 + square % 2;
    auto* const place = reinterpret_cast<unsigned char*>(shared.ds.values) +
                        (consumer * kQueries + query) * kRowBytes + (unit ^ thread % 8) * 16;
#pragma unroll
    for (int k = 0; k < kQueries / 16; ++k)
      ptx::stmatrix_x4_trans(place + k * 16 * kRowBytes, rows.ds[k]);
    ptx::fence_proxy_async();
    ptx::named_barrier_sync(kMeeting, Config::kConsumers * kWarpgroupThreads);
    ended(KernelPart::score_gradients, number);
  }
  __device__ __forceinline__ void finish_dv() {
    ptx::wgmma_wait<1>();
    finish(rows.dv);
    ended(KernelPart::value_gradients, number);
    release(shared.dout_empty[stage()]);
  }
  // `kYounger` products have been started since.
  template <int kYounger>
  __device__ __forceinline__ void finish_dk() {
    ptx::wgmma_wait<kYounger>();
    finish(rows.dk);
    ended(KernelPart::key_gradients, number);
    release(shared.empty[stage()]);
  }
  __device__ __forceinline__ void start_dq() {
    ptx::wgmma_fence();
    const std::uint64_t k_columns = columns_descriptor(
        ptx::shared_address(&shared.k) + piece_offset(first_column(), kKeys), kKeys * kRowBytes);
    const std::uint64_t ds_rows =
        rows_descriptor(ptx::shared_address(&shared.ds) + first_query() * kRowBytes);
#pragma unroll
    for (int part = 0; part < Config::kDqParts; ++part)
#pragma unroll
      for (int key = 0; key < kKeys; key += kProductDepth)
        ptx::wgmma_shared<Element, kDqQueries, ptx::Major::mn>(
            rows.dq[part].values[0],
            advance(k_columns, key * kRowBytes + piece_offset(part * kWarpgroupRows, kKeys)),
            advance(ds_rows, piece_offset(key, kQueries)), key != 0);
    ptx::wgmma_commit();
  }
  template <int kYounger>
  __device__ __forceinline__ void write_dq() {
    ptx::wgmma_wait<kYounger>();
#pragma unroll
    for (auto& part : rows.dq) finish(part);
    const unsigned buffer = number % kAdders;
    ptx::barrier_wait(shared.dq_empty[buffer], dq_parity(number) ^ 1);
    const int thread = ptx::thread_index() % kWarpgroupThreads;
    const int column = first_column() + accumulator_row(thread, 0);
    const int query = first_query() + accumulator_column(thread, 0);
    auto* const panel = reinterpret_cast<unsigned char*>(
        shared.dq[buffer][static_cast<unsigned>(column) / kDqColumns][query]);
    // Four values of an accumulator lie two queries and, eight columns apart, two 16-byte units from
    // each other. The copy engine's swizzle puts unit u of row r at u ^ (r % 8) (hopper_layout.h).
    const int unit = column % kDqColumns / 4 ^ query % 8;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      auto* const place =
          reinterpret_cast<float*>(panel + i % 2 * kRowBytes + (unit ^ i) * 16) + column % 4;
#pragma unroll
      for (int part = 0; part < Config::kDqParts; ++part)
#pragma unroll
        for (int k = 0; k < kDqQueries / 8; ++k)
          ptx::store_for_async(
              place[(part * kWarpgroupRows / kDqColumns * kQueries + k * 8) * kDqColumns],
              Config::factor_of_sums(step.softmax_scale) * rows.dq[part].values[0][4 * k + i]);
    }
    ptx::fence_proxy_async();
    if constexpr (Config::Plan::warps_arrive) {
      release(shared.dq_full[buffer]);
    } else {
      ptx::barrier_arrive(shared.dq_full[buffer]);
    }
    ended(KernelPart::query_gradients, number);
  }
};

// Do all visits of an item. Between the start and the end of a product stands what runs under it.
template <class Config, class Stamps>
__device__ __forceinline__ void consume(Visit<Config, Stamps> visit) {
  visit.start_s(visit.number);
  visit.start_dp();
  visit.finish_s();
  while (true) {
    visit.find_p();
    visit.finish_dp();
    visit.start_dv();
    visit.find_ds();
    visit.start_dk();
    visit.write_ds();
    visit.finish_dv();
    visit.start_dq();
    if (visit.number == visit.last) {
      visit.template finish_dk<0>();
      visit.template write_dq<0>();
      return;
    }
    visit.template finish_dk<1>();
    visit.start_s(visit.number + 1);
    visit.template write_dq<1>();
    ++visit.number;
    visit.start_dp();
    visit.finish_s();
  }
}

// Grid: any number of blocks.
template <class Config, class... Buffer>
__global__ void __launch_bounds__(Config::kThreads, 1)
    backward_one_pass(const BackwardStep step, const float exponent_scale,
                      const typename Config::Workspace workspace, const __grid_constant__ Maps maps,
                      Buffer... buffer) {
  auto& shared = shared_memory<OnePassStorage<Config>>();
  if (threadIdx.x == 0) init_barriers(shared);
  __syncthreads();

  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    ptx::release_registers<Config::kProducerRegisters>();
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (warp == 0) {
      if (threadIdx.x == 0) produce(shared, step, workspace, maps);
    } else if (warp <= kAdders) {
      for_each_item(shared, [&](const auto& work, unsigned) {
        if (threadIdx.x % 32 == 0) add_dq(shared, step, workspace, maps, work, warp - 1);
      });
    } else if (warp == kAdders + 1) {
      for_each_item(shared, [&](const auto& work, unsigned) {
        count_visits(step.counters, work.own,
                     work.first_matrix == 0 ? step.allowed_queries : nullptr, Config::kQueries,
                     step.shape.rows_q, work.heads());
      });
    }
  } else {
    ptx::claim_registers<Config::kConsumerRegisters>();
    Stamps<Buffer...> stamps{buffer...};
    const int consumer = warpgroup - 1, rows_k = step.shape.rows_k;
    for_each_item(shared, [&](const auto& work, unsigned n) {
      stamps.begin(work.first_matrix, work.tile);
      KeyRows<Config> rows(shared, consumer, work.own);
      ptx::barrier_wait(shared.own_full, n % 2);
      stamps.end(KernelPart::wait);
      const unsigned first = work.visits_before, visits = work.visits();
      if (visits > 0)
        consume(Visit<Config, decltype(stamps)>{rows, shared, step, work, stamps, consumer,
                                                exponent_scale, first, first + visits - 1});
      release(shared.own_empty);
      // Heads of a group that have items of their own add to dK and dV in turn.
      int* const turn =
          workspace.head_turns(step.shape) + work.own_matrix * tiles_for(rows_k, kKeys) + work.tile;
      const int head = work.first_matrix % (step.shape.heads / step.shape.heads_kv);
      if constexpr (Config::Plan::by_head) {
        if (threadIdx.x % 32 == 0) ptx::await_memory_turn(turn, head);
        __syncwarp();
      }
      const std::int64_t begin = std::int64_t{work.own_matrix} * rows_k;
      rows.store(step.dk + begin * Config::kHeadDim, rows.dk, rows_k,
                 Config::factor_of_sums(step.softmax_scale), head);
      rows.store(step.dv + begin * Config::kValueDim, rows.dv, rows_k, 1.0f, head);
      if constexpr (Config::Plan::by_head) {
        ptx::named_barrier_sync(kMeeting, Config::kConsumers * kWarpgroupThreads);
        if (threadIdx.x == kWarpgroupThreads) ptx::pass_memory_turn(turn, head + 1);
      }
      stamps.end(KernelPart::epilogue);
    });
  }
}

// Of 192 columns dK leaves no registers for S and dP of 64 queries.
constexpr TileShape kTiles[] = {{.rows = 64, .keys = kKeys, .most_head_dim = 128},
                                {.rows = 32, .keys = kKeys, .least_head_dim = 192}};

template <class OfPlan, class... Buffer>
void launch_instance(const BackwardStep& step, DType dtype, cudaStream_t stream,
                     const Buffer&... buffer) {
  ptx::arm_hang_record("11_backward_one_pass");
  const StepShape& shape = step.shape;
  const BackwardSide sides[2] = {side_of_keys(step), side_of_queries(step)};
  visit_half_instance(dtype, shape, [&]<class Element>(Element, auto head_dim, auto value_dim) {
    constexpr int kQueries = kTiles[head_dim() <= kTiles[0].most_head_dim ? 0 : 1].rows;
    using Config = OnePassConfig<Element, head_dim(), value_dim(), kQueries, OfPlan>;
    using Storage = OnePassStorage<Config>;
    static_assert(sizeof(Storage) <= 227 * 1024);
    if constexpr (std::is_same_v<OfPlan, Plan> ||
                  (std::is_same_v<Element, bf16> && head_dim() == 128)) {
      BackwardStep launched = step;
      if (!OfPlan::in_turn && step.first) {  // nobody knows who comes first
        const auto values = std::size_t{1} * shape.batch * shape.heads * shape.rows_q * head_dim();
        RINGSCOPE_CUDA(cudaMemsetAsync(step.dq, 0, values * sizeof(float), stream));
        launched.first = false;
      }
      const auto workspace =
          prepared_workspace<kQueries>(launched, stream, Config::factor_of_ds(step.softmax_scale));
      if constexpr (OfPlan::by_head) {
        const auto turns =
            std::size_t{1} * shape.batch * shape.heads_kv * tiles_for(shape.rows_k, kKeys);
        RINGSCOPE_CUDA(
            cudaMemsetAsync(workspace.head_turns(shape), 0, turns * sizeof(int), stream));
      }
      Maps maps;
      for (int i = 0; i < 2; ++i) {
        const auto map_of = [&](const BackwardSide& side, int rows) {
          return make_tensor_map(side.tensors[i], std::int64_t{shape.batch} * side.heads, side.rows,
                                 i == 0 ? head_dim() : value_dim(), rows);
        };
        maps.keys[i] = map_of(sides[0], kKeys);
        maps.queries[i] = map_of(sides[1], kQueries);
      }
      maps.dq = make_tensor_map(step.dq, std::int64_t{shape.batch} * shape.heads, shape.rows_q,
                                head_dim(), kQueries, sizeof(float));
      const unsigned items = Config::Work::items(shape);
      launch(backward_one_pass<Config, Buffer...>,
             {dim3(std::min(items, static_cast<unsigned>(multiprocessors()))),
              dim3(Config::kThreads), sizeof(Storage)},
             stream, launched, step.softmax_scale * kLog2e, workspace, maps, buffer...);
    }
  });
}

template <class OfPlan>
void launch_step(const BackwardStep& step, DType dtype, int, cudaStream_t stream) {
  launch_instance<OfPlan>(step, dtype, stream);
}

void launch_stamped(const BackwardStep& step, DType dtype, const StampBuffer& buffer,
                    cudaStream_t stream) {
  launch_instance<Plan>(step, dtype, stream, buffer);
}

}  // namespace

constinit const Kernel backward_one_pass_kernel{
    .number = 11,
    .name = "backward_one_pass",
    .idea = "five products: dQ is summed in memory, in the order of the keys",
    .limits = {.half = true, .hopper = true},
    .tiles = kTiles,
    .launch_backward = launch_step<Plan>,
    .launch_stamped_backward = launch_stamped};

constinit const Kernel backward_any_order =
    rung_of(11, 'a', "any_order", "five products: dQ is summed in memory as it comes",
            launch_step<AnyOrder>, kTiles, false);
constinit const Kernel backward_by_head =
    rung_of(11, 'b', "by_head", "11 with an item for each query head, which add dK and dV in turn",
            launch_step<ByHead>, kTiles);
constinit const Kernel backward_warps_arrive =
    rung_of(11, 'c', "warps_arrive", "11 with one arrival a warp when dQ is written",
            launch_step<WarpsArrive>, kTiles);

}  // namespace ringscope::cuda

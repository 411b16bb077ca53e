// 09: the backward pass of bf16 and f16 on tensor cores (mma.sync), in one launch and five products,
// where 08 takes two launches and seven. A block owns 128 keys, 16 for each of its warps, and tiles
// of queries visit it:
//
//   S^T = K Q^T    dP^T = V dO^T    dV += P^T dO    dK += dS^T Q    dQ += dS K
//
//   P = exp2(scale log2(e) S - unit)      dS = P (dP - delta)
//
// The unit, m log2(e) + log2(l), replaces m and l, which saves a product per score and leaves one
// subtraction. In f32 that would cost digits; here the loss is far below what P loses by rounding
// to 16 bits.
//
// What changes compared with 08, and why it is faster:
//
//   - mma.sync multiplies 16 x 8 x 16 values per instruction and warp.
//   - S and dP are computed once, so dQ of a tile of queries has a part from every block that it
//     visits. Blocks add their parts to memory in the order of the key tiles, so the same bits come
//     out every time: each tile of queries has a turn, and one_pass.h says why blocks seldom wait.
//   - P and dS stay in registers for dV and dK. The kernel computes S^T, not S, because the
//     accumulators of S^T, repacked to 16 bits, are the left operand that dV += P^T dO and
//     dK += dS^T Q want. No tile is ever transposed; ldmatrix reads them as they are or with .trans.
//   - dS alone goes through shared memory as well, because dQ sums over the keys of all warps. There
//     each warp has a rectangle of dQ: half the queries and a quarter of the columns.
//   - dK and dV stay in registers for all visits. That they are whole rows of 16 keys leaves a warp
//     room for S and dP of 64 queries at head_dim 128.
//   - cp.async brings the next tile of Q during all of this, into the other of two buffers, and that
//     of dO, which has one, during the products that do not need it.
//
// P and dS are rounded to the storage type, and all sums are f32. Visiting rows that no own row meets
// are loaded as zeros. Within a tile, 0 * NaN of a masked pair may reach rows that share it.
#include "cuda/base/launch.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/kernels/mma_tile.h"
#include "cuda/kernels/one_pass.h"
#include "cuda/ptx/barrier.h"
#include "cuda/ptx/registers.h"
#include "cuda/ptx/watchdog.h"

namespace ringscope::cuda {
namespace {

template <class Element_, int kDim_, int kValueDim_, int kQueries_>
struct Config {
  using Element = Element_;
  static constexpr int kDim = kDim_, kValueDim = kValueDim_, kQueries = kQueries_;
  static constexpr int kKeys = kOnePassKeys;
  static constexpr int kThreads = kKeys / kMmaRows * 32;
  static constexpr int kPassing = kThreads - 32;  // the thread that passes turns on
  static constexpr int kDqColumns = kDim / 4, kDqBands = kQueries / 2 / kMmaRows;  // of a warp
};

template <class C>
struct Storage {
  using Element = typename C::Element;
  alignas(1024) Element k[C::kKeys * C::kDim];  // swizzled, as all tiles are
  alignas(1024) Element v[C::kKeys * C::kValueDim];
  alignas(1024) Element q[2][C::kQueries * C::kDim];  // [visit % 2]
  alignas(1024) Element dout[C::kQueries * C::kValueDim];
  alignas(1024) Element ds[C::kKeys * C::kQueries];  // dS^T
  alignas(16) float notes[2][2][C::kQueries];        // units and deltas [visit % 2]
  OnePassItem<C::kQueries> item;  // not in registers, which are full of accumulators
};

// Where dS^T lies: in rows of 64 values, which hold 64 queries of a key or 32 of two.
template <class C>
struct DsPlace {
  static constexpr int kColumns = 64, kRows = C::kKeys * C::kQueries / kColumns;

  static __device__ __forceinline__ int row(int key) { return key % kRows; }
  static __device__ __forceinline__ int column(int key, int query) {
    return key / kRows * C::kQueries + query;
  }
};

// Start the copy of kRows rows of kDim values of a matrix, from `first` on. Rows outside `valid` become
// zero. It works in pieces, because the addresses of all rows at once would take too many registers.
template <class C, int kDim, int kRows>
__device__ __forceinline__ void start_copy(typename C::Element* to,
                                           const typename C::Element* matrix, int first,
                                           RowInterval valid, int thread) {
  constexpr int kPiece = 32;
#pragma unroll 1
  for (int row = 0; row < kRows; row += kPiece)
    copy_rows_async<kDim, kPiece, C::kThreads>(to + row * kDim, matrix, first + row, valid.first,
                                               valid.last, thread);
}

// Add keys from `key` on times the visiting rows, all of kDim values, to S^T or dP^T.
template <class C, int kDim>
__device__ __forceinline__ void add_scores(Tile<1, C::kQueries>& scores,
                                           const typename C::Element* own, int key,
                                           const typename C::Element* visitors, int lane) {
  const auto own_at = [&](std::uint32_t(&a)[1][4], int x) {
    load_a<kDim>(a[0], own, key, x, lane);
  };
  add_row_product<typename C::Element, kDim, 2>(scores, own_at, visitors, 0, lane);
}

// Let the other warps see dS^T of the keys from `key` on.
template <class C>
__device__ __forceinline__ void store_ds(typename C::Element* to, const Tile<1, C::kQueries>& ds,
                                         int key, int lane) {
  using Place = DsPlace<C>;
#pragma unroll
  for (int n = 0; n < C::kQueries; n += kMmaDepth) {
    std::uint32_t rounded[4];
    round_weights<typename C::Element>(rounded, ds, 0, n);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = Place::row(key) + mma::a_row(lane, i);
      const int column = Place::column(key, n) + mma::a_k(lane, i);
      auto* const pair = to + SwizzledRows<Place::kColumns>::value_place(row, column);
      *reinterpret_cast<std::uint32_t*>(pair) = rounded[i];
    }
  }
}

// Compute dQ += dS K for queries from `query` and columns from `column` on.
template <class C>
__device__ __forceinline__ void add_dq(Tile<C::kDqBands, C::kDqColumns>& dq,
                                       const typename C::Element* ds, int query,
                                       const typename C::Element* k, int column, int lane) {
  using Place = DsPlace<C>;
  const auto ds_at = [&](std::uint32_t(&a)[C::kDqBands][4], int key) {
#pragma unroll
    for (int band = 0; band < C::kDqBands; ++band)
      load_a_transposed<Place::kColumns>(a[band], ds, Place::row(key),
                                         Place::column(key, query + kMmaRows * band), lane);
  };
  add_column_product<typename C::Element, C::kDim, C::kKeys>(dq, ds_at, k, column, lane);
}

// Grid: as many blocks as there are items.
template <class C>
__global__ void __launch_bounds__(C::kThreads, 1)
    backward_tensor_cores(const BackwardStep step, const OnePassWorkspace<C::kQueries> workspace) {
  using Element = typename C::Element;
  auto& shared = shared_memory<Storage<C>>();
  const int thread = threadIdx.x;
  const int rows_q = step.shape.rows_q, rows_k = step.shape.rows_k;
  const float scale2 = step.softmax_scale * kLog2e;
  if (thread == 0) shared.item.set(step, workspace.take(), workspace.at_once);
  __syncthreads();
  const OnePassItem<C::kQueries>& item = shared.item;
  const RowTile& own = item.own;
  // Read anew where dK leaves no register for it.
  const int kept_visits = item.visits();
  const auto visits = [&] { return C::kDim == 192 ? item.visits() : kept_visits; };

  // Start the copies of the own rows, and of a visit's, of a tensor whose rows have `width` values.
  const auto start_keys = [&](Element* to, const void* tensor, auto width) {
    const std::int64_t begin = std::int64_t{item.own_matrix} * rows_k * width();
    start_copy<C, width(), C::kKeys>(to, static_cast<const Element*>(tensor) + begin, own.first,
                                     {own.first, own.first + own.rows}, thread);
  };
  const auto start_queries = [&](Element* to, const void* tensor, int visit, auto width) {
    const std::int64_t begin = std::int64_t{item.visiting_matrix(visit)} * rows_q * width();
    start_copy<C, width(), C::kQueries>(to, static_cast<const Element*>(tensor) + begin,
                                        item.visiting_tile(visit) * C::kQueries, own.needed,
                                        ptx::thread_index());
  };
  constexpr std::integral_constant<int, C::kDim> kDim{};
  constexpr std::integral_constant<int, C::kValueDim> kValueDim{};
  // Return the number of a visit's tile of queries among those of all matrices.
  const auto tile_of = [&](int matrix, int tile) {
    return std::int64_t{matrix} * tiles_for(rows_q, C::kQueries) + tile;
  };
  const auto place_of = [&](int visit) {
    return tile_of(item.visiting_matrix(visit), item.visiting_tile(visit));
  };
  const auto await_turn = [&](std::int64_t place) {
    ptx::await_memory_turn(workspace.turns + place, item.tile);
  };
  const auto pass_turn = [&](std::int64_t place) {
    ptx::pass_memory_turn(workspace.turns + place, item.tile + 1);
  };
  const auto start_notes = [&](int visit) {
    constexpr int kAtATime = 4;
    if (thread < 2 * C::kQueries / kAtATime)
      ptx::cp_async_16(shared.notes[visit % 2][0] + kAtATime * thread,
                       workspace.notes[place_of(visit)][0] + kAtATime * thread, true);
  };

  Tile<1, C::kDim> dk = {};
  Tile<1, C::kValueDim> dv = {};
  if (visits() > 0) {
    start_keys(shared.k, step.k, kDim);
    start_keys(shared.v, step.v, kValueDim);
    start_queries(shared.q[0], step.q, 0, kDim);
    start_queries(shared.dout, step.dout, 0, kValueDim);
    start_notes(0);
  } else if (thread == C::kPassing) {
    item.for_each_visit(item.last_turn, [&](int matrix, int tile) {
      await_turn(tile_of(matrix, tile));
      pass_turn(tile_of(matrix, tile));
    });
  }
  ptx::cp_async_commit();

  for (int visit = 0; visit < visits(); ++visit) {
    ptx::cp_async_wait<0>();
    __syncthreads();  // this visit's rows are there, and all threads are done with the one before
    const bool more = visit + 1 < visits();
    if (more) {
      start_queries(shared.q[(visit + 1) % 2], step.q, visit + 1, kDim);
      start_notes(visit + 1);
    }
    const Element* const q = shared.q[visit % 2];
    const int lane = ptx::thread_index() % 32, key = ptx::thread_index() / 32 * kMmaRows;
    // Return the units (0) or deltas (1) of the queries of two neighbouring values.
    const auto notes = [&](int which, int column) {
      const float* const of_column = shared.notes[visit % 2][which] + tile_column(lane) + column;
      return *reinterpret_cast<const float2*>(of_column);
    };
    const int first = item.visiting_tile(visit) * C::kQueries;

    Tile<1, C::kQueries> s, ds;  // S^T, then P^T; dP^T - delta, then dS^T
    s.set(0);
    add_scores<C, C::kDim>(s, shared.k, key, q, lane);
    ds.for_each_pair([&](float& left, float& right, int, int, int column) {
      const float2 delta = notes(1, column);
      left = -delta.x;
      right = -delta.y;
    });
    add_scores<C, C::kValueDim>(ds, shared.v, key, shared.dout, lane);
    s.for_each_pair([&](float& left, float& right, int, int, int column) {
      const float2 unit = notes(0, column);
      left = ptx::exp2_approx(fmaf(left, scale2, -unit.x));
      right = ptx::exp2_approx(fmaf(right, scale2, -unit.y));
    });
    if (!own.is_full(first, first + C::kQueries))
      s.mask(lane, 0, [&](int, int h) -> RowInterval {
        const int mine = key + tile_row(lane, h);
        const RowInterval meets =
            mine < own.rows ? step.allowed_queries[own.first + mine] : RowInterval{0, 0};
        return {meets.first - first, meets.last - first};
      });
    ds.multiply(s);
    store_ds<C>(shared.ds, ds, key, lane);
    add_weighted_rows(dv, s, shared.dout, lane);

    // Half a visit later, the additions of the one before have ended. A turn that is passed before
    // the next is waited for keeps nobody waiting in a circle.
    if (thread == C::kPassing && visit > 0) pass_turn(place_of(visit - 1));
    __syncthreads();  // dS is complete, and dO free
    if (more) start_queries(shared.dout, step.dout, visit + 1, kValueDim);
    ptx::cp_async_commit();
    add_weighted_rows(dk, ds, q, lane);

    Tile<C::kDqBands, C::kDqColumns> dq;
    dq.set(0);
    const int warp = ptx::thread_index() / 32, dq_lane = ptx::thread_index() % 32;
    const int query = warp / 4 * C::kQueries / 2, column = warp % 4 * C::kDqColumns;
    add_dq<C>(dq, shared.ds, query, shared.k, column, dq_lane);
    // Each warp waits for itself, when it has something to add.
    if (dq_lane == 0) await_turn(place_of(visit));
    __syncwarp();
    const std::int64_t begin = std::int64_t{item.visiting_matrix(visit)} * rows_q;
    const bool is_first = item.visiting_tile(visit) >= item.first_store;
    for_each_row<C::kDqBands>([&](int band, int h) {
      const int row = first + query + kMmaRows * band + tile_row(dq_lane, h);
      float* const to = step.dq + (begin + row) * C::kDim + column;
      dq.scale(band, h, step.softmax_scale);
      if (!is_first) return dq.add_to(band, h, dq_lane, to, row < rows_q);
      if (row < rows_q) dq.store(band, h, dq_lane, to, 1);
    });
  }
  __syncthreads();  // all parts of dQ have been given to memory
  if (thread == C::kPassing && visits() > 0) pass_turn(place_of(visits() - 1));

  const int lane = thread % 32, warp = thread / 32;
  const std::int64_t begin = std::int64_t{item.own_matrix} * rows_k + own.first;
  for_each_row<1>([&](int, int h) {
    const int mine = warp * kMmaRows + tile_row(lane, h);
    if (mine >= own.rows) return;
    dk.store(0, h, lane, step.dk + (begin + mine) * C::kDim, step.softmax_scale);
    dv.store(0, h, lane, step.dv + (begin + mine) * C::kValueDim, 1.0f);
  });
  if (warp == 0)
    count_visits(step.counters, own, item.own_matrix == 0 ? step.allowed_queries : nullptr,
                 C::kQueries, rows_q, item.heads());
}

// Shared memory at head_dim 64, 128 and 192, in KiB: 73, 129, -; 53, 97, 121. Of 192 columns dK leaves
// no registers for S and dP of 64 queries.
constexpr TileShape kTiles[] = {{.rows = 64, .keys = kOnePassKeys, .most_head_dim = 128},
                                {.rows = 32, .keys = kOnePassKeys}};

// Call f(Config{}) with the instance.
template <class F>
void visit_instance(DType dtype, HeadDims dims, int tile, F&& f) {
  visit_half_instance(dtype, dims, [&]<class Element>(Element, auto keys, auto values) {
    visit_tile<std::size(kTiles)>(tile, [&](auto number) {
      constexpr TileShape kTile = kTiles[number()];
      if constexpr (keys() <= kTile.most_head_dim)
        f(Config<Element, keys(), values(), kTile.rows>{});
    });
  });
}

std::size_t shared_bytes(HeadDims dims, int tile) {
  std::size_t bytes = 0;
  visit_instance(DType::bf16, dims, tile, [&]<class C>(C) { bytes = sizeof(Storage<C>); });
  return bytes;
}

void launch_step(const BackwardStep& step, DType dtype, int tile, cudaStream_t stream) {
  ptx::arm_hang_record("09_backward_tensor_cores");
  visit_instance(dtype, step.shape, tile, [&]<class C>(C) {
    const auto workspace = prepared_workspace<C::kQueries>(step, stream);
    launch(backward_tensor_cores<C>,
           {dim3(OnePassItem<C::kQueries>::items(step.shape)), C::kThreads, sizeof(Storage<C>)},
           stream, step, workspace);
  });
}

}  // namespace

constinit const Kernel backward_tensor_cores_kernel{
    .number = 9,
    .name = "backward_tensor_cores",
    .idea = "five products by mma.sync: P and dS in registers, dQ summed in memory in turn",
    .limits = {.half = true},
    .tiles = kTiles,
    .shared_bytes = shared_bytes,
    .launch_backward = launch_step};

}  // namespace ringscope::cuda

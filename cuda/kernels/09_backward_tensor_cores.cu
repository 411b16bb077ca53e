// 09: the backward pass of bf16 and f16 on tensor cores (mma.sync), in the same two launches as 08.
//
//   t = scale log2(e) Q K^T     P = exp2(t - lse2)     dP = dO V^T     dS = P (dP - delta)
//   dV += P^T dO                dK += dS^T Q           dQ += dS K
//
// lse2 = m log2(e) + log2(l) replaces m and l, which saves a product per score and leaves one
// subtraction. In f32 that would cost digits; here the loss is far below what P loses by rounding
// to 16 bits.
//
// What changes compared with 08, and why it is faster:
//
//   - mma.sync multiplies 16 x 8 x 16 values per instruction and warp.
//   - S and dP never leave registers. Seen from the owner, S is own x visiting rows, and so are the
//     accumulators of mma.sync. Repacked to 16 bits they are the left operand of the product that
//     adds to the gradient. When keys own, the kernel computes S^T = K Q^T, so P^T and dS^T appear
//     where dV += P^T dO and dK += dS^T Q need them, and no tile is ever transposed. Only ldmatrix
//     reads the visitors, once as they are and once with .trans.
//   - The gradients stay in registers too, 16 or 32 own rows per warp. Each loaded piece of the
//     visitors serves all rows of the warp, so 32 rows halve the reads from shared memory. dK and
//     dV together leave room for only 16 at head_dim 128.
//   - cp.async brings the next visitors during these, into the other of two buffers, which takes
//     one barrier per tile.
//
// S and dP are computed in strips of as many visiting rows as registers allow. P and dS are rounded
// to the storage type, and all sums are f32. Visiting rows that no row of the tile meets are loaded
// as zeros. Within the tile, 0 * NaN of a masked pair may reach rows that share a tile with it.
#include <algorithm>

#include "cuda/base/launch.h"
#include "cuda/kernels/backward_rows.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/kernels/mma_tile.h"

namespace ringscope::cuda {
namespace {

template <class Element_, int kOwn_, int kVisit_, int kDim_, Owner kOwner_>
struct Config {
  using Element = Element_;
  static constexpr int kOwn = kOwn_, kVisit = kVisit_, kDim = kDim_;
  static constexpr bool kKeysOwn = kOwner_ == Owner::keys;
  static constexpr Owner kOwner = kOwner_;
  static constexpr int kGradients = kKeysOwn ? 2 : 1;  // dK, dV or dQ
  // Own rows of a warp, in mma.sync's 16: a thread has 8 * kBands * kDim / 16 values per gradient.
  static constexpr int kBands = kOwn < 128 || kGradients * kDim > 128 ? 1 : 2;
  static constexpr int kThreads = kOwn / (16 * kBands) * 32;
  static constexpr int kStrip = kBands == 1 ? kVisit : 32;  // visiting rows at a time
  static constexpr int kQueries = kKeysOwn ? kVisit : kOwn;
  static_assert(kVisit % kStrip == 0 && kStrip % 16 == 0);
  static_assert(!kKeysOwn || kQueries <= kThreads, "a thread prepares at most one query row");
};

// Turns scores of one tile of query rows into P and dS.
template <int kRows>
struct QueryRows {
  alignas(8) float lse2[kRows];  // +inf for rows without keys, whose P is 0
  alignas(8) float delta[kRows];
};

// The visitors of a block: all visiting tiles of its first query head, then those of the next head
// of the group. It is in shared memory, because the registers are full of accumulators.
struct Visits {
  RowTile own;
  int first_tile, tiles;  // of a head
  int first_head;
  int count;  // tiles of all heads

  __host__ __device__ constexpr int head(int visit) const { return first_head + visit / tiles; }
  __host__ __device__ constexpr int tile(int visit) const { return first_tile + visit % tiles; }
};

template <class C>
__device__ __forceinline__ Visits visits_of(const BackwardStep& step, int own_tile, int own_head) {
  const int rows = C::kKeysOwn ? step.shape.rows_k : step.shape.rows_q;
  const int group = step.shape.heads / step.shape.heads_kv;
  const RowTile own = RowTile::at(own_tile, C::kOwn, rows, table_of(C::kOwner, step));
  const int first = own.first_visitor(C::kVisit), tiles = own.last_visitor(C::kVisit) - first;
  if (C::kKeysOwn) return {own, first, tiles, own_head * group, tiles * group};
  return {own, first, tiles, own_head / group, tiles};
}

template <class C>
struct Storage {
  using Element = typename C::Element;
  alignas(1024) Element own[2][C::kOwn * C::kDim];            // swizzled, as are the visitors
  alignas(1024) Element visitors[2][2][C::kVisit * C::kDim];  // [buffer]
  Visits visits;
  QueryRows<C::kQueries> queries[C::kKeysOwn ? 2 : 1];  // [buffer], when queries visit
};

// A query row in transit from global memory.
struct PendingRow {
  float row_max = 0;
  double row_sum = 0;
  float delta = 0;

  __device__ static PendingRow load(const BackwardStep& step, int batch, int head, int row) {
    if (row >= step.shape.rows_q) return {};
    const std::int64_t at = row_of(side_of_queries(step), batch, head, row);
    return {step.row_max[at], step.row_sum[at], step.delta[at]};
  }
  template <int kRows>
  __device__ void store(QueryRows<kRows>& to, int i) const {
    to.lse2[i] = base2_unit(row_max, row_sum);
    to.delta[i] = delta;
  }
};

// Start the copy of kRows rows of a matrix, from `first` on. Rows outside `valid` become zero. It
// works in pieces, because the addresses of all rows at once would take too many registers.
template <class C, int kRows>
__device__ __forceinline__ void start_copy(typename C::Element* to,
                                           const typename C::Element* matrix, int first,
                                           RowInterval valid, int thread) {
  constexpr int kPiece = 32;
#pragma unroll 1
  for (int row = 0; row < kRows; row += kPiece)
    copy_rows_async<C::kDim, kPiece, C::kThreads>(to + row * C::kDim, matrix, first + row,
                                                  valid.first, valid.last, thread);
}

// Add own rows from `row` on times visiting rows from `visitor` on to a strip of S or of dP.
template <class C>
__device__ __forceinline__ void add_scores(Tile<C::kBands, C::kStrip>& strip,
                                           const typename C::Element* own, int row,
                                           const typename C::Element* visitors, int visitor,
                                           int lane) {
  const auto own_at = [&](std::uint32_t(&a)[C::kBands][4], int x) {
#pragma unroll
    for (int band = 0; band < C::kBands; ++band)
      load_a<C::kDim>(a[band], own, row + 16 * band, x, lane);
  };
  add_row_product<typename C::Element, C::kDim, 2>(strip, own_at, visitors, visitor, lane);
}

// Write (or add) a warp's rows to the matrix [.., kDim] `to`, which begins at the tile's first row.
template <class C, bool kAccumulate>
__device__ __forceinline__ void store(Tile<C::kBands, C::kDim>& gradient, float* to, int row,
                                      int rows, float factor, int lane) {
  for_each_row<C::kBands>([&](int band, int h) {
    const int mine = row + 16 * band + tile_row(lane, h);
    if (mine >= rows) return;
    if (kAccumulate) gradient.add(band, h, lane, to + mine * C::kDim);
    gradient.store(band, h, lane, to + mine * C::kDim, factor);
  });
}

// Grid: own tiles, own heads, batch.
template <class C>
__global__ void __launch_bounds__(C::kThreads, 1) backward_tensor_cores(const BackwardStep step) {
  using Element = typename C::Element;
  auto& shared = shared_memory<Storage<C>>();
  const BackwardSide own_side = C::kKeysOwn ? side_of_keys(step) : side_of_queries(step);
  const BackwardSide visiting_side = C::kKeysOwn ? side_of_queries(step) : side_of_keys(step);
  const int own_head = blockIdx.y, batch = blockIdx.z;
  const int thread = threadIdx.x, lane = thread % 32, row = thread / 32 * 16 * C::kBands;
  const float scale2 = step.softmax_scale * kLog2e;
  const Visits& visits = shared.visits;
  if (thread == 0)
    shared.visits = visits_of<C>(step, own_tile_of(C::kOwner, blockIdx.x, gridDim.x), own_head);
  __syncthreads();
  const RowTile& own = visits.own;

  const auto matrix = [&](const BackwardSide& side, int tensor, int head) {
    return static_cast<const Element*>(side.tensors[tensor]) +
           row_of(side, batch, head, 0) * C::kDim;
  };
  const auto start_copies = [&](int visit) {
    for (int tensor = 0; tensor < 2; ++tensor)
      start_copy<C, C::kVisit>(shared.visitors[visit % 2][tensor],
                               matrix(visiting_side, tensor, visits.head(visit)),
                               visits.tile(visit) * C::kVisit, own.needed, thread);
  };
  const auto load_query = [&](int visit) {
    return PendingRow::load(step, batch, visits.head(visit),
                            visits.tile(visit) * C::kVisit + thread);
  };

  Tile<C::kBands, C::kDim> gradients[C::kGradients] = {};
  if (visits.count > 0) {
    for (int tensor = 0; tensor < 2; ++tensor)
      start_copy<C, C::kOwn>(shared.own[tensor], matrix(own_side, tensor, own_head), own.first,
                             {own.first, own.first + own.rows}, thread);
    start_copies(0);
    if (C::kKeysOwn) {
      if (thread < C::kQueries) load_query(0).store(shared.queries[0], thread);
    } else {
      for (int i = thread; i < C::kQueries; i += C::kThreads)
        PendingRow::load(step, batch, own_head, own.first + i).store(shared.queries[0], i);
    }
  }
  ptx::cp_async_commit();

  for (int visit = 0; visit < visits.count; ++visit) {
    ptx::cp_async_wait<0>();
    __syncthreads();  // this visit's rows are there, and all threads are done with the one before
    const bool more = visit + 1 < visits.count,
               prepares = C::kKeysOwn && more && thread < C::kQueries;
    if (more) start_copies(visit + 1);
    ptx::cp_async_commit();
    PendingRow pending;
    if (prepares) pending = load_query(visit + 1);

    const int first = visits.tile(visit) * C::kVisit;
    const bool unmasked = own.is_full(first, first + C::kVisit);
    const auto& visitors = shared.visitors[visit % 2];
    const auto& queries = shared.queries[C::kKeysOwn ? visit % 2 : 0];
#pragma unroll 1
    for (int strip = 0; strip < C::kVisit; strip += C::kStrip) {
      // Return the notes (lse2 or delta) of the queries of two neighbouring values.
      const auto notes = [&](const float* of, int band, int h, int column) {
        if (C::kKeysOwn)
          return *reinterpret_cast<const float2*>(of + strip + tile_column(lane) + column);
        const float its = of[row + 16 * band + tile_row(lane, h)];
        return make_float2(its, its);
      };
      Tile<C::kBands, C::kStrip> s, ds;  // S, then P; dP - delta, then dS
      s.set(0);
      add_scores<C>(s, shared.own[0], row, visitors[0], strip, lane);
      ds.for_each_pair([&](float& left, float& right, int band, int h, int column) {
        const float2 delta = notes(queries.delta, band, h, column);
        left = -delta.x;
        right = -delta.y;
      });
      add_scores<C>(ds, shared.own[1], row, visitors[1], strip, lane);
      s.for_each_pair([&](float& left, float& right, int band, int h, int column) {
        const float2 unit = notes(queries.lse2, band, h, column);
        left = ptx::exp2_approx(left * scale2 - unit.x);
        right = ptx::exp2_approx(right * scale2 - unit.y);
      });
      if (!unmasked)
        s.mask(lane, 0, [&](int band, int h) -> RowInterval {
          const int mine = row + 16 * band + tile_row(lane, h);
          const RowInterval meets =
              mine < own.rows ? table_of(C::kOwner, step)[own.first + mine] : RowInterval{0, 0};
          return {meets.first - (first + strip), meets.last - (first + strip)};
        });
      ds.multiply(s);
      if constexpr (C::kKeysOwn) add_weighted_rows(gradients[1], s, visitors[1], strip, lane);
      add_weighted_rows(gradients[0], ds, visitors[0], strip, lane);
    }
    if (prepares) pending.store(shared.queries[(visit + 1) % 2], thread);
  }

  const std::int64_t at = row_of(own_side, batch, own_head, own.first) * C::kDim;
  if constexpr (C::kKeysOwn) {
    store<C, false>(gradients[0], step.dk + at, row, own.rows, step.softmax_scale, lane);
    store<C, false>(gradients[1], step.dv + at, row, own.rows, 1.0f, lane);
  } else {
    store<C, true>(gradients[0], step.dq + at, row, own.rows, 1.0f, lane);
    if (thread < 32)
      count_visits(step.counters, own, batch + own_head == 0 ? step.allowed_keys : nullptr,
                   C::kVisit, step.shape.rows_k);
  }
}

template <class Keys, class Queries>
void launch_both(const BackwardStep& step, cudaStream_t stream) {
  const StepShape& shape = step.shape;
  const auto grid = [&](int rows, int heads) {
    return dim3(tiles_for(rows, Keys::kOwn), heads, shape.batch);
  };
  launch(backward_tensor_cores<Keys>,
         {grid(shape.rows_k, shape.heads_kv), Keys::kThreads, sizeof(Storage<Keys>)}, stream, step);
  launch(backward_tensor_cores<Queries>,
         {grid(shape.rows_q, shape.heads), Queries::kThreads, sizeof(Storage<Queries>)}, stream,
         step);
}

// Tiles of the launch that owns queries. The one that owns keys has as many rows, and 64 queries
// visit at a time. Shared memory at head_dim 128, in KiB: 97 and 129; 97 and 98.
constexpr TileShape kTiles[] = {{128, 32}, {64, 64}};

// Call f(keys, queries) with the configurations of the two launches.
template <class F>
void visit_instance(DType dtype, int head_dim, int tile, F&& f) {
  visit_half_instance(dtype, head_dim, [&]<class Element>(Element, auto dim) {
    visit_tile<std::size(kTiles)>(tile, [&](auto number) {
      constexpr TileShape kTile = kTiles[number()];
      f(Config<Element, kTile.rows, 64, dim(), Owner::keys>{},
        Config<Element, kTile.rows, kTile.keys, dim(), Owner::queries>{});
    });
  });
}

std::size_t shared_bytes(int head_dim, int tile) {
  std::size_t bytes = 0;
  visit_instance(DType::bf16, head_dim, tile, [&]<class Keys, class Queries>(Keys, Queries) {
    bytes = std::max(sizeof(Storage<Keys>), sizeof(Storage<Queries>));
  });
  return bytes;
}

void launch_step(const BackwardStep& step, DType dtype, int tile, cudaStream_t stream) {
  visit_instance(dtype, step.shape.head_dim, tile, [&]<class Keys, class Queries>(Keys, Queries) {
    launch_both<Keys, Queries>(step, stream);
  });
}

}  // namespace

constinit const Kernel backward_tensor_cores_kernel{
    .number = 9,
    .name = "backward_tensor_cores",
    .idea = "mma.sync, S and dP in registers, cp.async brings the next visitors",
    .limits = {.half = true},
    .tiles = kTiles,
    .shared_bytes = shared_bytes,
    .launch_backward = launch_step};

}  // namespace ringscope::cuda

// 08: the backward pass in f32, on tiles in shared memory and in registers.
//
//   S = scale Q K^T      P = exp(S - m) / l      dP = dO V^T      dS = P (dP - delta)
//   dV += P^T dO         dK += dS^T Q, times scale at the end     dQ += dS K
//
// m and l are the final ones of the forward pass, over all keys of all ring steps. Nothing of size
// rows x keys was kept, so P is recomputed one tile at a time. That makes a backward pass possible
// for long sequences, and costs one product more than keeping P would.
//
// There are two launches, one for dK and dV and one for dQ (backward_rows.h says why), of one
// kernel. A block owns a tile of rows of one side. It keeps their two tensors in shared memory and
// their gradients in registers, and goes through the tiles of the other side that its rows meet:
//
//   1  load the visitors' two tensors
//   2  compute S and dP: a thread has 4 own rows x kVisit / 16 visiting rows and reads four values
//      of a row at once (float4): 32 multiplications for 6 loads where kVisit is 32
//   3  store P and dS in shared memory, [visiting row][own row]
//   4  gradients += P, dS times the visitors: a thread has the same 4 own rows x head_dim / 16
//      columns, and adds 4 x 4 outer products
//
// S is summed in the order of the forward kernels, so that it rounds like the S that gave m and l.
// The gradients are summed one tile at a time, because a sum of sums loses fewer digits than one
// long sum.
//
// Query heads that share a kv head visit its keys one after the other, so grouped heads need no
// atomics either. Full tiles need no mask tests, and tiles that no own row meets are skipped. Rows
// that no row of the tile meets are loaded as zeros, whatever they hold. Within the tile, 0 * NaN
// of a masked pair may reach rows that share a tile with it.
#include "cuda/base/launch.h"
#include "cuda/kernels/backward_rows.h"
#include "cuda/kernels/kernel_table.h"
#include "cuda/kernels/vector_rows.h"

namespace ringscope::cuda {
namespace {

// kOwn own rows x kVisit visiting rows, head_dim and value_dim() up to kDim.
template <int kOwn_, int kVisit_, int kDim_>
struct Tile {
  static constexpr int kOwn = kOwn_, kVisit = kVisit_, kDim = kDim_;
  static constexpr int kThreads = kOwn / 4 * 16;  // 4 own rows each, 16 share them
  static constexpr int kVisitors = kVisit / 16;   // visiting rows of a thread
  static constexpr int kColumns = kDim / 64;      // groups of 4 columns of a thread
  static_assert(kOwn % 8 == 0 && kVisit % 16 == 0 && kDim % 64 == 0);
};

// Rows are padded by 16 bytes, which moves each row 4 banks on. So 8 threads that read the same
// float4 of 8 neighbouring rows use all 32 banks.
template <class T>
struct Storage {
  alignas(16) float own[2][T::kOwn][T::kDim + 4];
  alignas(16) float visitors[2][T::kVisit][T::kDim + 4];
  alignas(16) float p[T::kVisit][T::kOwn + 4];
  alignas(16) float ds[T::kVisit][T::kOwn + 4];
  QueryRow queries[T::kOwn > T::kVisit ? T::kOwn : T::kVisit];
};

// Load four values at once. `from` is a multiple of 16 bytes.
__device__ __forceinline__ void load4(float (&to)[4], const float* from) {
  const float4 value = vector_at(from);
  to[0] = value.x, to[1] = value.y, to[2] = value.z, to[3] = value.w;
}

// The two tensors of one side, for one (batch, head).
struct Matrices {
  const float* tensors[2];

  __device__ Matrices(const BackwardSide& side, int batch, int head, const int (&widths)[2]) {
    for (int i = 0; i < 2; ++i)
      tensors[i] =
          static_cast<const float*>(side.tensors[i]) + row_of(side, batch, head, 0) * widths[i];
  }
};

// Compute product[a][b] = own row a times visiting row b, over `width` columns, one after the other. A thread's visiting rows are 16 apart.
template <class T>
__device__ __forceinline__ void multiply(float (&product)[4][T::kVisitors],
                                         const float (&own)[T::kOwn][T::kDim + 4],
                                         const float (&visitors)[T::kVisit][T::kDim + 4], int row,
                                         int visitor, int width) {
#pragma unroll
  for (int a = 0; a < 4; ++a)
#pragma unroll
    for (int b = 0; b < T::kVisitors; ++b) product[a][b] = 0;
#pragma unroll 2
  for (int x = 0; x < width; x += 4) {  // columns from there on are 0
    float mine[4][4];
#pragma unroll
    for (int a = 0; a < 4; ++a) load4(mine[a], &own[row + a][x]);
#pragma unroll
    for (int b = 0; b < T::kVisitors; ++b) {
      float other[4];
      load4(other, &visitors[visitor + 16 * b][x]);
#pragma unroll
      for (int a = 0; a < 4; ++a)
#pragma unroll
        for (int i = 0; i < 4; ++i) product[a][b] = fmaf(mine[a][i], other[i], product[a][b]);
    }
  }
}

// A thread's part of a gradient: 4 own rows x kColumns groups of 4 columns, 64 apart.
template <class T>
struct Gradient {
  float values[T::kColumns][4][4] = {};

  // Add weights^T visitors. weights is [visiting row][own row]. Each group of columns is summed
  // over the tile before it is added.
  __device__ __forceinline__ void add(const float (&weights)[T::kVisit][T::kOwn + 4],
                                      const float (&visitors)[T::kVisit][T::kDim + 4], int row,
                                      int column, int width) {
#pragma unroll
    for (int group = 0; group < T::kColumns; ++group) {
      if (64 * group >= width) break;
      float sum[4][4] = {};
#pragma unroll 4
      for (int j = 0; j < T::kVisit; ++j) {
        float w[4], v[4];
        load4(w, &weights[j][row]);
        load4(v, &visitors[j][column + 64 * group]);
#pragma unroll
        for (int a = 0; a < 4; ++a)
#pragma unroll
          for (int x = 0; x < 4; ++x) sum[a][x] = fmaf(w[a], v[x], sum[a][x]);
      }
#pragma unroll
      for (int a = 0; a < 4; ++a)
#pragma unroll
        for (int x = 0; x < 4; ++x) values[group][a][x] += sum[a][x];
    }
  }

  // Set own rows [row, row + 4) of the matrix [.., width] `to`, as far as they are below `rows`,
  // to factor * gradient, or add it.
  template <bool kAccumulate>
  __device__ __forceinline__ void store(float* to, int row, int rows, int column, int width,
                                        float factor) const {
#pragma unroll
    for (int a = 0; a < 4; ++a) {
      if (row + a >= rows) break;
#pragma unroll
      for (int group = 0; group < T::kColumns; ++group)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int x = column + 64 * group + i;
          if (x >= width) break;
          float& place = to[static_cast<std::int64_t>(row + a) * width + x];
          place = (kAccumulate ? place : 0.0f) + factor * values[group][a][i];
        }
    }
  }
};

// Do steps 2 and 3 for one tile of visitors, whose first row is row `visitors_first` of its side.
template <class T, Owner kOwner, bool kMasked>
__device__ __forceinline__ void compute_weights(Storage<T>& shared, int row, int visitor,
                                                const int (&widths)[2], float scale,
                                                int visitors_first, const RowInterval (&meets)[4]) {
  float s[4][T::kVisitors], dp[4][T::kVisitors];
  multiply<T>(s, shared.own[0], shared.visitors[0], row, visitor, widths[0]);
  multiply<T>(dp, shared.own[1], shared.visitors[1], row, visitor, widths[1]);
#pragma unroll
  for (int b = 0; b < T::kVisitors; ++b) {
    const int other = visitor + 16 * b, other_row = visitors_first + other;
    float p[4], ds[4];
#pragma unroll
    for (int a = 0; a < 4; ++a) {
      const QueryRow query = shared.queries[kOwner == Owner::keys ? other : row + a];
      p[a] = expf(s[a][b] * scale - query.unit) * query.weight;
      ds[a] = p[a] * (dp[a][b] - query.delta);
      if constexpr (kMasked) {
        const bool meet = meets[a].first <= other_row && other_row < meets[a].last;
        p[a] = meet ? p[a] : 0.0f;
        ds[a] = meet ? ds[a] : 0.0f;
      }
    }
    if (kOwner == Owner::keys)
      *reinterpret_cast<float4*>(&shared.p[other][row]) = make_float4(p[0], p[1], p[2], p[3]);
    *reinterpret_cast<float4*>(&shared.ds[other][row]) = make_float4(ds[0], ds[1], ds[2], ds[3]);
  }
}

// Load rows [first, first + count) of a query head. Rows from rows_q on count as rows without keys.
template <class T>
__device__ __forceinline__ void load_query_rows(Storage<T>& shared, const BackwardStep& step,
                                                int batch, int head, int first, int count) {
  for (int i = threadIdx.x; i < count; i += T::kThreads) {
    const int row = first + i;
    shared.queries[i] = row < step.shape.rows_q
                            ? query_row(step, row_of(side_of_queries(step), batch, head, row))
                            : QueryRow{0, 0, 0};
  }
}

// Grid: own tiles, own heads, batch.
template <class T, Owner kOwner>
__global__ void __launch_bounds__(T::kThreads, 1) backward_tiled(const BackwardStep step) {
  auto& shared = shared_memory<Storage<T>>();
  constexpr bool kKeysOwn = kOwner == Owner::keys;
  const BackwardSide own_side = kKeysOwn ? side_of_keys(step) : side_of_queries(step);
  const BackwardSide visiting_side = kKeysOwn ? side_of_queries(step) : side_of_keys(step);
  const RowInterval* const table = table_of(kOwner, step);
  const RowTile own =
      RowTile::at(own_tile_of(kOwner, blockIdx.x, gridDim.x), T::kOwn, own_side.rows, table);
  const int own_head = blockIdx.y, batch = blockIdx.z;
  const int widths[2] = {step.shape.head_dim, step.shape.value_dim()};
  const int row = threadIdx.x / 16 * 4, lane = threadIdx.x % 16;

  const Matrices mine(own_side, batch, own_head, widths);
  for (int i = 0; i < 2; ++i)
    load_rows<T::kDim, T::kThreads>(shared.own[i], mine.tensors[i], own.first,
                                    {own.first, own.first + own.rows}, widths[i]);
  if (!kKeysOwn) load_query_rows<T>(shared, step, batch, own_head, own.first, T::kOwn);
  RowInterval meets[4];
  for (int a = 0; a < 4; ++a)
    meets[a] = row + a < own.rows ? table[own.first + row + a] : RowInterval{0, 0};

  Gradient<T> of_first, of_second;  // dK and dV, or dQ
  const int group = step.shape.heads / step.shape.heads_kv;
  const int visiting_heads = kKeysOwn ? group : 1;
  const int begin = own.first_visitor(T::kVisit), end = own.last_visitor(T::kVisit);
  for (int g = 0; g < visiting_heads; ++g) {
    const int head = kKeysOwn ? own_head * group + g : own_head / group;
    const Matrices theirs(visiting_side, batch, head, widths);
    for (int tile = begin; tile < end; ++tile) {
      const int first = tile * T::kVisit;
      __syncthreads();  // all threads are done with the visitors before
      for (int i = 0; i < 2; ++i)
        load_rows<T::kDim, T::kThreads>(shared.visitors[i], theirs.tensors[i], first, own.needed,
                                        widths[i]);
      if (kKeysOwn) load_query_rows<T>(shared, step, batch, head, first, T::kVisit);
      __syncthreads();
      if (own.is_full(first, first + T::kVisit)) {
        compute_weights<T, kOwner, false>(shared, row, lane, widths, step.softmax_scale, first,
                                          meets);
      } else {
        compute_weights<T, kOwner, true>(shared, row, lane, widths, step.softmax_scale, first,
                                         meets);
      }
      __syncthreads();  // P and dS are complete
      of_first.add(shared.ds, shared.visitors[0], row, 4 * lane, widths[0]);
      if (kKeysOwn) of_second.add(shared.p, shared.visitors[1], row, 4 * lane, widths[1]);
    }
  }

  const std::int64_t at = row_of(own_side, batch, own_head, own.first);
  if constexpr (kKeysOwn) {
    of_first.template store<false>(step.dk + at * widths[0], row, own.rows, 4 * lane, widths[0],
                                   step.softmax_scale);
    of_second.template store<false>(step.dv + at * widths[1], row, own.rows, 4 * lane, widths[1],
                                    1.0f);
  } else {
    float* const dq = step.dq + at * widths[0];
    step.first
        ? of_first.template store<false>(dq, row, own.rows, 4 * lane, widths[0], step.softmax_scale)
        : of_first.template store<true>(dq, row, own.rows, 4 * lane, widths[0], step.softmax_scale);
    if (threadIdx.x < 32)
      count_visits(step.counters, own, batch + own_head == 0 ? table : nullptr, T::kVisit,
                   step.shape.rows_k);
  }
}

template <class T>
void launch_both(const BackwardStep& step, cudaStream_t stream) {
  const StepShape& shape = step.shape;
  const auto grid = [&](int rows, int heads) {
    return dim3(tiles_for(rows, T::kOwn), heads, shape.batch);
  };
  launch(backward_tiled<T, Owner::keys>,
         {grid(shape.rows_k, shape.heads_kv), T::kThreads, sizeof(Storage<T>)}, stream, step);
  launch(backward_tiled<T, Owner::queries>,
         {grid(shape.rows_q, shape.heads), T::kThreads, sizeof(Storage<T>)}, stream, step);
}

// Own rows x visiting rows, so in the launch that owns keys `rows` counts keys. Shared memory at
// head_dim 64, 128, 256 in KiB: 44, 76, 140; 22, 37, 68.
constexpr TileShape kTiles[] = {{32, 32}, {16, 16}};

// Call f(Tile{}) with the instance.
template <class F>
void visit_instance(HeadDims dims, int tile, F&& f) {
  visit_tile<std::size(kTiles)>(tile, [&](auto number) {
    visit_head_dim(dims.wider(), [&](auto dim) {
      f(Tile<kTiles[number()].rows, kTiles[number()].keys, dim()>{});
    });
  });
}

std::size_t shared_bytes(HeadDims dims, int tile) {
  std::size_t bytes = 0;
  visit_instance(dims, tile, [&]<class T>(T) { bytes = sizeof(Storage<T>); });
  return bytes;
}

void launch_step(const BackwardStep& step, DType, int tile, cudaStream_t stream) {
  visit_instance(step.shape, tile, [&]<class T>(T) { launch_both<T>(step, stream); });
}

}  // namespace

constinit const Kernel backward_tiled_kernel{
    .number = 8,
    .name = "backward_tiled",
    .idea = "P recomputed on tiles; one launch owns keys (dK, dV), one owns queries (dQ)",
    .tiles = kTiles,
    .shared_bytes = shared_bytes,
    .launch_backward = launch_step};

}  // namespace ringscope::cuda

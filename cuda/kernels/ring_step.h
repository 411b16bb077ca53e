// Defines what every kernel of the ladder from 02 on computes: ONE ring step. The queries of a rank
// meet one KV block, and the online softmax continues from the state of the steps before.
//
// With any mask and partition, a local query row may attend one interval of local key rows, and
// neither end of the intervals ever decreases from row to row (core/problem/region.h). So a kernel
// needs no masks, positions or documents. It gets a table with one interval per row, and
//
//   a tile of rows [i0, i1) needs the keys of [first(i0), last(i1-1)) and no others
//   it is full on keys [k0, k1) when   first(i1-1) <= k0  and  k1 <= last(i0)
//
// The same holds the other way round: the queries that may attend a key are one interval of rows.
// The owner of a key tile needs this in the backward pass.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ringscope::cuda {

// Local rows [first, last); empty when first >= last.
struct RowInterval {
  std::int32_t first;
  std::int32_t last;
};

// Return how many tiles of `tile_rows` rows cover `rows` rows.
__host__ __device__ constexpr int tiles_for(int rows, int tile_rows) {
  return (rows + tile_rows - 1) / tile_rows;
}

// The rows [first, first + rows) of one side (queries or keys) that one block owns, and which rows
// of the other side, the visitors, they meet. `rows` is at least 1.
struct RowTile {
  int first;
  int rows;
  RowInterval needed;    // no own row meets a visitor outside
  RowInterval unmasked;  // every own row meets every visitor inside

  // Return tile `index` of tile_rows rows, of a side of all_rows rows with this table of intervals.
  // index < tiles_for(all_rows, tile_rows).
  __host__ __device__ static constexpr RowTile at(int index, int tile_rows, int all_rows,
                                                  const RowInterval* table) {
    const int first = index * tile_rows;
    const int rows = all_rows - first < tile_rows ? all_rows - first : tile_rows;
    const RowInterval top = table[first], bottom = table[first + rows - 1];
    return {first, rows, {top.first, bottom.last}, {bottom.first, top.last}};
  }

  // Tiles [first_visitor, last_visitor) of `tile_rows` visitors must be visited.
  __host__ __device__ constexpr int first_visitor(int tile_rows) const {
    return needed.first / tile_rows;
  }
  __host__ __device__ constexpr int last_visitor(int tile_rows) const {
    return needed.first < needed.last ? tiles_for(needed.last, tile_rows)
                                      : first_visitor(tile_rows);
  }

  // Whether visitors [begin, end) need no mask. A tile that reaches past the last row needs one.
  __host__ __device__ constexpr bool is_full(int begin, int end) const {
    return unmasked.first <= begin && end <= unmasked.last;
  }
};

// What a block owns when all heads of one tile stand side by side, so that they share the other side
// in L2. Tiles and heads fold into the grid's x, which takes 2^31 - 1 blocks; y and z take 65535.
struct TileAndHead {
  int tile, head;

  // Return the grid of `tiles` x `heads` x `batch` blocks. Throw nothing: check_launch has refused
  // more than 2^31 - 1 tiles x heads.
  static dim3 grid(int tiles, int heads, int batch) {
    return dim3(static_cast<unsigned>(tiles) * static_cast<unsigned>(heads),
                static_cast<unsigned>(batch));
  }
  static __host__ __device__ constexpr TileAndHead of(unsigned block, int heads) {
    const unsigned tile = block / static_cast<unsigned>(heads);
    return {static_cast<int>(tile), static_cast<int>(block - tile * static_cast<unsigned>(heads))};
  }
};

// Blocks count what they visit, with integer atomics, so the order does not matter (count_visits).
// Pairs are those of batch entry 0, head 0; tiles are those of all batch entries and heads.
struct StepCounters {
  unsigned long long pairs;
  unsigned long long tiles_full;
  unsigned long long tiles_partial;
  unsigned long long tiles_skipped;
};

// The sizes of one step. Tensors are in C order: Q and dQ [batch, heads, rows_q, head_dim], K and dK
// [batch, heads_kv, rows_k, head_dim], rows [batch, heads, rows_q]. V, dV, out and dO likewise, with
// value_dim() values in a row.
struct StepShape {
  int batch = 1;
  int heads = 1;
  int heads_kv = 1;
  int rows_q = 0;
  int rows_k = 0;
  int head_dim = 0;
  int head_dim_v = 0;  // 0: head_dim

  __host__ __device__ constexpr int value_dim() const {
    return head_dim_v == 0 ? head_dim : head_dim_v;
  }
  // Return the kv head that query head `head` reads.
  __host__ __device__ constexpr int kv_head(int head) const { return head / (heads / heads_kv); }
};

// Arguments of a forward step, passed to kernels by value. The state between steps is f32 (row_sum
// f64): row_max = largest scaled score (natural units, -inf before any key), row_sum = sum of
// exp(score - row_max), out = sum of exp(score - row_max) V, unnormalised. With `first`, the stored
// state is meaningless and not read. With `last`, out becomes out / row_sum (0 for a row without
// keys) and lse is written (-inf then); row_max and row_sum are written as always.
//
// A sink is a key without a value: with `last` alone, and so once however many steps there are,
// exp(sink_logits[head]) joins row_sum. A row without keys has lse = sink_logits[head] then.
struct ForwardStep {
  StepShape shape;
  float softmax_scale = 1.0f;
  bool first = false;
  bool last = false;
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const RowInterval* allowed_keys = nullptr;  // [rows_q]
  float* row_max = nullptr;
  double* row_sum = nullptr;
  float* out = nullptr;
  void* out_16 = nullptr;  // where a step with `first` and `last` stores out instead, rounded to
                           // the type of q; of kernels for Hopper alone
  float* lse = nullptr;
  StepCounters* counters = nullptr;
  const float* sink_logits = nullptr;  // [heads], or null
};

// Arguments of a backward step. With P = exp(score - row_max) / row_sum, dP = dO V^T and dS = P (dP
// - delta):
//   dq += softmax_scale dS K        f32; with `first` it is not read, but overwritten
//   dk  = softmax_scale dS^T Q      f32, overwritten
//   dv  = P^T dO                    f32, overwritten
// dk and dv are summed over the query heads that share a kv head. A sink is in row_max and row_sum.
struct BackwardStep {
  StepShape shape;
  float softmax_scale = 1.0f;
  bool first = false;
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const void* dout = nullptr;
  const RowInterval* allowed_keys = nullptr;     // [rows_q]
  const RowInterval* allowed_queries = nullptr;  // [rows_k]
  const float* row_max = nullptr;                // final
  const double* row_sum = nullptr;               // final
  const float* delta = nullptr;                  // rowsum(dO o O), [batch, heads, rows_q]
  float* dq = nullptr;
  float* dk = nullptr;
  float* dv = nullptr;
  StepCounters* counters = nullptr;  // counted once, by the kernel that owns the query tile
  void* workspace = nullptr;         // backward_workspace_bytes() bytes, aligned to 16
};

// Return the bytes that a backward step of this shape may use as it likes: a counter, of every tile of
// 32 or 64 query rows two floats a row and an int, and an int of every tile of keys (one_pass.h).
constexpr std::int64_t backward_workspace_bytes(const StepShape& shape) {
  return 16 +
         std::int64_t{shape.batch} * shape.heads * tiles_for(shape.rows_q, 64) * 2 * (32 * 8 + 4) +
         std::int64_t{shape.batch} * shape.heads_kv * tiles_for(shape.rows_k, 128) * 4;
}

}  // namespace ringscope::cuda

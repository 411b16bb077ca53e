// Defines who owns what in a backward step. Kernel 08 is launched twice:
//
//   Owner::keys      a block owns a tile of keys and sums dK and dV; tiles of queries visit it,
//                    one query head of the group after the other
//   Owner::queries   a block owns a tile of queries and sums dQ; tiles of keys visit it
//
// S and dP are therefore computed twice, 7 products per tile instead of 5. In return every sum has
// one writer and one order: no atomics, no races, the same bits in every run. Kernels 09 and 11 are
// launched once and own keys (one_pass.h).
//
// The two launches are one algorithm. Call the owner's tensors own[0], own[1] and the visitors'
// visit[0], visit[1]: K, V and Q, dO, or the other way round. Seen from the owner (transposed when
// keys own),
//
//   S = own[0] visit[0]^T        dP = own[1] visit[1]^T        dS = P (dP - delta)
//   gradient of own[0] += dS visit[0];   when keys own also   gradient of own[1] += P visit[1]
//
// The owner also has the table of intervals: allowed_keys of queries, allowed_queries of keys. Its
// ends never decrease, so a tile's first and last row tell all that tiles need.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>

#include "cuda/kernels/ring_step.h"
#include "cuda/kernels/row_state.h"

namespace ringscope::cuda {

enum class Owner { keys, queries };

// One side of a step: two tensors [batch, heads, rows, width].
struct BackwardSide {
  const void* tensors[2];  // K, V or Q, dO
  int heads;
  int rows;
};

__host__ __device__ constexpr BackwardSide side_of_keys(const BackwardStep& step) {
  return {{step.k, step.v}, step.shape.heads_kv, step.shape.rows_k};
}
__host__ __device__ constexpr BackwardSide side_of_queries(const BackwardStep& step) {
  return {{step.q, step.dout}, step.shape.heads, step.shape.rows_q};
}

// Return, for each own row, the visiting rows that it meets.
__host__ __device__ constexpr const RowInterval* table_of(Owner owner, const BackwardStep& step) {
  return owner == Owner::keys ? step.allowed_queries : step.allowed_keys;
}

// Return the index of a row in [batch, heads, rows].
__host__ __device__ constexpr std::int64_t row_of(const BackwardSide& side, int batch, int head,
                                                  int row) {
  return (static_cast<std::int64_t>(batch) * side.heads + head) * side.rows + row;
}

// Return which of `tiles` own tiles `block` takes. Blocks start in order, and the longest should
// start first. Under causal masks the last queries meet most keys, and the first keys most queries.
__host__ __device__ constexpr int own_tile_of(Owner owner, int block, int tiles) {
  return owner == Owner::keys ? block : tiles - 1 - block;
}

// Turns scores of a query row into P and dS: P = exp(score - unit) * weight. A row without keys, or
// past the end, has weight 0, so P = 0.
struct QueryRow {
  float unit;
  float weight;
  float delta;
};

// Return the QueryRow at index `row`, which is row_of() the side of queries.
__device__ inline QueryRow query_row(const BackwardStep& step, std::int64_t row) {
  const double row_sum = step.row_sum[row];
  return {exponent_unit(step.row_max[row]), row_sum == 0 ? 0.0f : static_cast<float>(1.0 / row_sum),
          step.delta[row]};
}

// Return what is subtracted from base-2 scores t in P = exp2(t - unit): m log2(e) + log2(l), which
// saves a product per score. A row without keys has unit = inf, so P = 0.
__device__ __forceinline__ float base2_unit(float row_max, double row_sum) {
  return row_sum == 0 ? std::numeric_limits<float>::infinity()
                      : fmaf(row_max, kLog2e, log2f(static_cast<float>(row_sum)));
}

}  // namespace ringscope::cuda

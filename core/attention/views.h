// Views of the memory that one rank computes with, and the parameters of an attention call. A view
// owns nothing. Its pointers lie in host or device memory, as the backend expects.
#pragma once

#include <cmath>

#include "core/base/dtype.h"
#include "core/problem/shape.h"

namespace ringscope {

// The parameters that stay the same for all blocks. A block has rows of its own; seqlen is that of
// the whole problem.
struct AttentionParams : AttentionShape {
  DType dtype = DType::f32;    // how Q, K, V and dO are stored
  double softmax_scale = 1.0;  // multiplies Q K^T
  // A learned sink per head, or null: exp(sink) joins the sum of each row of the head, once, and no
  // value. (The `sink:K` of a mask is another thing: the first K keys.) It is in host memory and
  // counts the heads of the whole problem, of which first_head is the first here.
  const float* sink_logits = nullptr;
  Index first_head = 0;
  double softcap = 0;  // c: a score s counts as c tanh(s / c); 0: as s

  // Return the sink of row `i` of a query block with so many rows.
  float sink_of(Index i, Index rows) const {
    return sink_logits[first_head + i / rows % num_heads];
  }
};

// Consecutive query heads, and the kv heads that they read.
struct HeadShare {
  Index first = 0, num_heads = 0;
  Index first_kv = 0, num_heads_kv = 0;

  AttentionParams of(AttentionParams params) const {
    params.first_head = first;
    params.num_heads = num_heads;
    params.num_heads_kv = num_heads_kv;
    return params;
  }
};

inline double default_softmax_scale(Index head_dim) {
  return 1.0 / std::sqrt(static_cast<double>(head_dim));
}

// The query side of a rank, in params.dtype. q is [batch, num_heads, rows, head_dim], dout has
// head_dim_v values in a row.
struct QueryBlock {
  const void* q = nullptr;
  const void* dout = nullptr;  // backward only
  Index rows = 0;
};

// One owner's keys and values in params.dtype: K [batch, num_heads_kv, rows, head_dim], then V [..,
// rows, head_dim_v].
struct KvBlock {
  const void* data = nullptr;
  Index rows = 0;
};

// The gradient of a KV block: dK, then dV, shaped as K and V, in f32.
struct KvGradient {
  float* data = nullptr;
  Index rows = 0;
};

// The state that online softmax carries from block to block. row_sum is f64, because its rounding,
// and with it that of whole gradient rows, would otherwise grow with the number of blocks.
struct SoftmaxState {
  float* row_max = nullptr;    // m, [batch, num_heads, rows]: largest scaled score so far
  double* row_sum = nullptr;   // l, same shape: sum of exp(score - row_max)
  float* out_accum = nullptr;  // [.., rows, head_dim_v]: sum of exp(score - row_max) * V
  float* lse = nullptr;        // [batch, num_heads, rows]: written by finish
};

// What the backward pass needs from the forward pass, and what it accumulates.
struct BackwardState {
  const float* row_max = nullptr;   // [batch, num_heads, rows], final
  const double* row_sum = nullptr;  // [batch, num_heads, rows], final
  const float* out = nullptr;       // [batch, num_heads, rows, head_dim_v]
  float* delta = nullptr;           // [batch, num_heads, rows]: rowsum(dO * O)
  float* dq = nullptr;              // [batch, num_heads, rows, head_dim]
};

// What a block computation did, as counted by the code that did it. Pairs are those of one batch
// entry and head, because all have the same; tiles are counted over all of them.
struct BlockStats {
  Index pairs = 0;
  Index tiles_full = 0;
  Index tiles_partial = 0;
  Index tiles_skipped = 0;
};

}  // namespace ringscope

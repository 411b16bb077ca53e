// Attention exactly as its formula reads. In f64 it is the oracle that everything else is measured
// against; in f32 it is the plainest implementation.
//
//   S = softmax_scale * Q K^T      P = softmax(S) over the allowed keys      O = P V
//
// and backward (S1, part two, 8.1):
//
//   dV = P^T dO            dP = dO V^T      dS = P * (dP - rowsum(dO * O))
//   dQ = scale dS K        dK = scale dS^T Q
//
// It works on blocks of query rows, so a seqlen x seqlen matrix need not fit in memory. Only
// allowed keys enter a row's sums, so a NaN at a forbidden key stays out.
#pragma once

#include <functional>
#include <vector>

#include "core/attention/row_bounds.h"
#include "core/problem/mask.h"
#include "core/problem/shape.h"

namespace ringscope {

// All tensors are in C order: q, dq [batch, heads, seqlen, head_dim]; k, dk with heads-kv; out, dout,
// v, dv likewise with head_dim_v; lse [batch, heads, seqlen]. A row without allowed keys has out 0, lse -inf and gradient
// 0. With NaiveOptions::queries, out, lse and dq hold those rows alone. dk and dv then stay empty,
// because every query adds to them.
template <class T>
struct NaiveResult {
  std::vector<T> out, lse;
  std::vector<T> dq, dk, dv;  // backward only
  std::vector<T> dsink{};     // [heads], of sink_logits; backward only
  RowBounds bounds{};         // with NaiveOptions::with_bounds
};

struct NaiveOptions {
  Index block_rows = 0;  // query rows per block; 0: all (materialises seqlen x seqlen)
  int threads = 1;
  // Compute only these query rows, counted from the first (ascending); compute all if it is empty.
  std::vector<Index> queries;
  std::function<void(double)> progress;  // share done, in [0, 1]; called by one thread at a time
  bool with_bounds = false;              // bound the rows' errors; in f64 only
  const float* sink_logits = nullptr;    // [heads], as in AttentionParams
  double softcap = 0;                    // likewise
};

// Compute attention in T, which is float or double. A null `dout` means forward only.
template <class T>
NaiveResult<T> naive_attention(const AttentionShape& shape, const Mask& mask, double softmax_scale,
                               const T* q, const T* k, const T* v, const T* dout,
                               const NaiveOptions& options = {});

}  // namespace ringscope

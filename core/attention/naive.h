// Attention as its formula says: in f64 the oracle that everything else is measured against, in f32
// the plainest implementation.
//
//   S = softmax_scale * Q K^T      P = softmax(S) over the allowed keys      O = P V
//
// and backward (S1, part two, 8.1):
//
//   dV = P^T dO            dP = dO V^T      dS = P * (dP - rowsum(dO * O))
//   dQ = scale dS K        dK = scale dS^T Q
//
// It walks blocks of query rows, so that it works where a seqlen x seqlen matrix would not fit.
// Only allowed keys enter a row's sums: a NaN at a forbidden key stays out.
#pragma once

#include <functional>
#include <vector>

#include "core/problem/mask.h"
#include "core/problem/shape.h"

namespace ringscope {

// All tensors C order: q, out, dout, dq [batch, heads, seqlen, head_dim]; k, v, dk, dv with
// heads-kv; lse [batch, heads, seqlen]. A row without allowed keys has out 0, lse -inf and no
// gradient. With NaiveOptions::queries, out, lse and dq have those rows alone, and dk and dv, which
// every query adds to, stay empty.
template <class T>
struct NaiveResult {
  std::vector<T> out, lse;
  std::vector<T> dq, dk, dv;  // backward only
};

struct NaiveOptions {
  Index block_rows = 0;  // query rows at a time; 0: all of them (materialises seqlen x seqlen)
  int threads = 1;
  // Compute only the query rows at these global positions (ascending). Empty: all of them.
  std::vector<Index> queries;
  std::function<void(double)> progress;  // share done, in [0, 1]; called from one thread at a time
};

// T is float or double; computes in T. `dout` null: forward only.
template <class T>
NaiveResult<T> naive_attention(const AttentionShape& shape, const Mask& mask, double softmax_scale,
                               const T* q, const T* k, const T* v, const T* dout,
                               const NaiveOptions& options = {});

}  // namespace ringscope

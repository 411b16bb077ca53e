// Attention of some queries over one block of keys, forward and backward, for one head. It is the
// step that ring attention repeats, written as in a textbook: all numbers are f64, and nothing
// serves speed. The fast version is core/attention/blockwise.h; a test compares the two.
#pragma once

#include <cmath>
#include <iterator>
#include <numeric>
#include <span>
#include <vector>

#include "core/attention/online_softmax.h"
#include "core/problem/mask.h"
#include "core/problem/partition.h"

namespace ringscope::reference {

// A matrix of rows x columns numbers, stored row by row.
struct Matrix {
  Index columns = 0;
  std::vector<double> values;

  Matrix() = default;
  Matrix(Index rows, Index columns_each) : columns(columns_each), values(rows * columns_each) {}
  std::span<double> row(Index i) {
    return {&values[i * columns], static_cast<std::size_t>(columns)};
  }
  std::span<const double> row(Index i) const {
    return {&values[i * columns], static_cast<std::size_t>(columns)};
  }
};

inline double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Compute into += factor * row.
inline void add(std::span<double> into, double factor, std::span<const double> row) {
  for (std::size_t x = 0; x < row.size(); ++x) into[x] += factor * row[x];
}

// What is the same for all blocks.
struct Terms {
  Mask mask;
  double softmax_scale = 1;
  double sink = kMinusInfinity<double>;  // a learned logit of the head; -inf: none
};

// A rank's queries and their positions in the sequence. `dout` is the gradient of the output.
struct Queries {
  LocalRows positions;
  Matrix q, dout;
};

// A rank's keys and values. This is what travels around the ring.
struct KvBlock {
  LocalRows positions;
  Matrix k, v;
};

// The gradient of a KvBlock. It follows the block around the ring, one step behind.
struct KvGradient {
  Matrix dk, dv;
};

// What every query keeps between two blocks: m, l and the unnormalised output.
struct State {
  std::vector<RowState<double>> rows;
  Matrix out_accum;
};

// Return the scaled scores of query i for the keys of `block`, with -inf for forbidden pairs.
inline std::vector<double> scores_of(const Terms& terms, const Queries& queries, Index i,
                                     const KvBlock& block) {
  std::vector<double> scores;
  for (Index j = 0; j < block.positions.size(); ++j) {
    const bool allowed =
        terms.mask.allows(queries.positions.global_position(i), block.positions.global_position(j));
    scores.push_back(allowed ? terms.softmax_scale * dot(queries.q.row(i), block.k.row(j))
                             : kMinusInfinity<double>);
  }
  return scores;
}

// Update `state` with the keys of `block`.
inline void attend(const Terms& terms, const Queries& queries, const KvBlock& block, State& state) {
  for (Index i = 0; i < queries.positions.size(); ++i)
    carry_on<double>(state.rows[i], state.out_accum.row(i), scores_of(terms, queries, i, block),
                     block.v.values.data());
}

// Turn out_accum into the output after the last block. The sink comes first: a key whose value is 0,
// which each row sees once. A row without allowed keys has output 0.
inline void finish(const Terms& terms, State& state) {
  const std::vector<double> nothing(state.out_accum.columns);
  for (Index i = 0; i < std::ssize(state.rows); ++i) {
    carry_on<double>(state.rows[i], state.out_accum.row(i), {&terms.sink, 1}, nothing.data());
    for (double& out : state.out_accum.row(i))
      out = state.rows[i].row_sum == 0 ? 0 : out / state.rows[i].row_sum;
  }
}

// Return what these queries add to the gradient of `block`, and add the block's share to dq. P is
// recomputed from `forward`, the finished state of the forward pass: from the m and l of the whole
// row, not from the block's own (S1, part two, 8.1).
//
//   dV = P^T dO      dP = dO V^T      dS = P * (dP - rowsum(dO * O))
//   dQ = scale dS K      dK = scale dS^T Q
inline KvGradient attend_backward(const Terms& terms, const Queries& queries, const KvBlock& block,
                                  const State& forward, Matrix& dq) {
  const Index keys = block.positions.size();
  KvGradient gradient{Matrix(keys, block.k.columns), Matrix(keys, block.v.columns)};
  for (Index i = 0; i < queries.positions.size(); ++i) {
    const std::vector<double> scores = scores_of(terms, queries, i, block);
    const std::span<const double> dout = queries.dout.row(i);
    const double delta = dot(dout, forward.out_accum.row(i));
    for (Index j = 0; j < keys; ++j) {
      if (scores[j] == kMinusInfinity<double>) continue;
      const RowState<double>& row = forward.rows[i];
      const double p = std::exp(scores[j] - row.row_max) / row.row_sum;
      const double ds = p * (dot(dout, block.v.row(j)) - delta);
      add(gradient.dv.row(j), p, dout);
      add(gradient.dk.row(j), terms.softmax_scale * ds, queries.q.row(i));
      add(dq.row(i), terms.softmax_scale * ds, block.k.row(j));
    }
  }
  return gradient;
}

}  // namespace ringscope::reference

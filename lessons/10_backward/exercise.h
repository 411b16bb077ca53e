// Exercise 10: the backward pass of one query row over one block of keys.
//
//   q, k, v       the query, and the block's keys and values, k[j] and v[j] for key j
//   dout          the gradient of the row's output
//   lse, delta    of the whole row, all blocks' keys: left by the forward pass
//   dq, dk, dv    gradients so far: add this block's part to them
//
// All vectors are head_dim long. Scores are scale * (q · k[j]).
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

using Vector = std::vector<double>;

inline double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t x = 0; x < a.size(); ++x) sum += a[x] * b[x];
  return sum;
}

// a += factor * b
inline void add(Vector& a, double factor, const Vector& b) {
  for (std::size_t x = 0; x < a.size(); ++x) a[x] += factor * b[x];
}

inline void backward(double scale, const Vector& q, const std::vector<Vector>& k,
                     const std::vector<Vector>& v, const Vector& dout, double lse, double delta,
                     Vector& dq, std::vector<Vector>& dk, std::vector<Vector>& dv) {
  (void)v, (void)delta, (void)dq, (void)dk;
  for (std::size_t j = 0; j < k.size(); ++j) {
    const double weight = std::exp(scale * dot(q, k[j]) - lse);  // P, recomputed
    add(dv[j], weight, dout);
    // not yet right: dq and dk[j] get nothing
  }
}

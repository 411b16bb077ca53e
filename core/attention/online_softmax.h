// Softmax over keys that arrive in pieces, one query row at a time. It is the algebra beneath
// blocks, rings and merges, in its plainest form.
//
// For the keys seen so far a row keeps
//
//   m = largest score      l = sum of exp(score - m)      out_accum = sum of exp(score - m) V
//
// When the maximum grows from m to m', l and out_accum are multiplied by exp(m - m') (S0, "Safe
// softmax"; S1, part two, 4). At the end out = out_accum / l and lse = m + log(l).
//
// A row without keys has m = -inf and l = 0. Every function here accepts it, because none forms the
// difference -inf - -inf, which would be NaN. A NaN that goes in comes out.
#pragma once

#include <cmath>
#include <limits>
#include <span>

#include "core/base/math.h"

namespace ringscope {

template <class T>
inline constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();

template <class T>
struct RowState {
  T row_max = kMinusInfinity<T>;
  T row_sum = 0;
};

// Return the factor that converts sums measured against `old_max` to `new_max`, which must not be
// smaller.
template <class T>
T rescale_factor(T old_max, T new_max) {
  return old_max == new_max ? T(1) : std::exp(old_max - new_max);
}

// Return the natural log of the sum of exp of all scores seen, or -inf when there were none.
template <class T>
T lse_of(const RowState<T>& row) {
  return row.row_sum == T(0) ? kMinusInfinity<T> : row.row_max + std::log(row.row_sum);
}

// Compute the softmax of `scores`. The maximum is subtracted so that exp never overflows (in f32 it
// would for scores above 88.7). All weights are 0 when all scores are -inf.
// [safe_softmax
template <class T>
void safe_softmax(std::span<const T> scores, std::span<T> weights) {
  T largest = kMinusInfinity<T>, sum = 0;
  for (T s : scores) largest = std::fmax(largest, s);
  const T unit = largest == kMinusInfinity<T> ? T(0) : largest;
  for (std::size_t j = 0; j < scores.size(); ++j) sum += weights[j] = std::exp(scores[j] - unit);
  for (T& w : weights) w = sum == T(0) ? T(0) : w / sum;
}
// safe_softmax]

// Update a row with one block of keys. `scores` are already scaled, and -inf where masked; `values`
// is the block's V, [scores.size(), head_dim]; out_accum has head_dim values.
// [carry_on
template <class T>
void carry_on(RowState<T>& row, std::span<T> out_accum, std::span<const T> scores,
              const T* values) {
  T new_max = row.row_max;
  for (T s : scores) new_max = std::fmax(new_max, s);
  const T unit = new_max == kMinusInfinity<T> ? T(0) : new_max;
  const T factor = rescale_factor(row.row_max, new_max);
  row.row_sum *= factor;
  for (T& o : out_accum) o *= factor;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    if (scores[j] == kMinusInfinity<T>) continue;
    const T p = std::exp(scores[j] - unit);
    row.row_sum += p;
    for (std::size_t x = 0; x < out_accum.size(); ++x)
      out_accum[x] += p * values[j * out_accum.size() + x];
  }
  row.row_max = new_max;
}
// carry_on]

// Merge the partial result b into a, in (m, l) form (S1, part two, 4). Their keys are disjoint and
// both outputs are unnormalised.
// [merge
template <class T>
void merge(RowState<T>& a, std::span<T> out_a, const RowState<T>& b, std::span<const T> out_b) {
  const T new_max = std::fmax(a.row_max, b.row_max);
  const T factor_a = rescale_factor(a.row_max, new_max),
          factor_b = rescale_factor(b.row_max, new_max);
  a.row_sum = factor_a * a.row_sum + factor_b * b.row_sum;
  for (std::size_t x = 0; x < out_a.size(); ++x)
    out_a[x] = factor_a * out_a[x] + factor_b * out_b[x];
  a.row_max = new_max;
}
// merge]

// Merge by log-sum-exp (S2): outputs are normalised, and lse is the only statistic. S2's formula is
// NaN when both lse are -inf. Here a part without keys (lse_b = -inf) changes nothing.
template <class T>
void merge_by_lse(T& lse_a, std::span<T> out_a, T lse_b, std::span<const T> out_b) {
  if (lse_b == kMinusInfinity<T>) return;
  const T larger = std::fmax(lse_a, lse_b);
  const T lse = larger + std::log(std::exp(lse_a - larger) + std::exp(lse_b - larger));
  const T weight_a = std::exp(lse_a - lse), weight_b = std::exp(lse_b - lse);
  for (std::size_t x = 0; x < out_a.size(); ++x)
    out_a[x] = weight_a * out_a[x] + weight_b * out_b[x];
  lse_a = lse;
}

}  // namespace ringscope

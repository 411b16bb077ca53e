// Inputs for lessons: the same numbers everywhere.
#pragma once

#include <cmath>
#include <iterator>
#include <limits>
#include <vector>

#include "core/attention/naive.h"
#include "core/base/random.h"
#include "core/ring/config.h"
#include "core/ring/rows.h"

namespace ringscope::lessons {

// `count` values from N(0, 1).
template <class T = float>
std::vector<T> random_values(RandomTensor tensor, Index count, std::uint64_t seed = 1) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i)
    values[static_cast<std::size_t>(i)] = static_cast<T>(normal(seed, tensor, i));
  return values;
}

// Q, K, V and dO of `shape`.
inline AttentionInputs random_inputs(const AttentionShape& shape, std::uint64_t seed = 1) {
  const Index row = shape.batch * shape.seqlen * shape.head_dim;
  return {random_values(RandomTensor::q, row * shape.num_heads, seed),
          random_values(RandomTensor::k, row * shape.num_heads_kv, seed),
          random_values(RandomTensor::v, row * shape.num_heads_kv, seed),
          random_values(RandomTensor::dout, row * shape.num_heads, seed)};
}

// The formulas in f64 on one rank: what a ring's output is measured against. With `backward`, the
// gradients too.
inline NaiveResult<double> exact_attention(const RingConfig& config, const AttentionInputs& in,
                                           bool backward = false) {
  const auto f64 = [](const std::vector<float>& x) {
    return std::vector<double>(x.begin(), x.end());
  };
  const std::vector<double> q = f64(in.q), k = f64(in.k), v = f64(in.v), dout = f64(in.dout);
  return naive_attention<double>(config.shape, config.problem().mask, config.scale(), q.data(),
                                 k.data(), v.data(), backward ? dout.data() : nullptr,
                                 {.block_rows = 256, .threads = 2, .queries = {}, .progress = {}});
}

// The larger of the two becomes `most`; a NaN on either side stays.
inline void keep_larger(double& most, double other) {
  if (!(other <= most) && !std::isnan(most)) most = other;
}

// The largest |a[i] - b[i]|; NaN where one is NaN, infinite when the sizes differ.
template <class A, class B>
double largest_difference(const A& a, const B& b) {
  if (std::size(a) != std::size(b)) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < std::size(a); ++i)
    keep_larger(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return largest;
}

}  // namespace ringscope::lessons

// Attention problems drawn from a seed, their oracle, and the distance from it: shared by the tests
// of everything that computes attention.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/attention/naive.h"
#include "core/base/dtype.h"
#include "core/base/random.h"
#include "core/problem/mask.h"
#include "core/problem/shape.h"

namespace ringscope {

// A mask's spelling as part of a test's name: letters, digits and underscores.
inline std::string test_name(std::string mask) {
  for (char& c : mask)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return mask;
}

template <class T>
struct Tensors {
  std::vector<T> q, k, v, dout;
};

inline Index query_values(const AttentionShape& shape) {
  return shape.batch * shape.num_heads * shape.queries() * shape.head_dim;
}
inline Index out_values(const AttentionShape& shape) {
  return shape.batch * shape.num_heads * shape.queries() * shape.value_dim();
}
inline Index kv_values(const AttentionShape& shape) {
  return shape.batch * shape.num_heads_kv * shape.seqlen * shape.head_dim;
}
inline Index v_values(const AttentionShape& shape) {
  return shape.batch * shape.num_heads_kv * shape.seqlen * shape.value_dim();
}

// What `ringscope run --random --seed SEED` draws, rounded to `dtype`.
inline Tensors<float> random_tensors(const AttentionShape& shape, std::uint64_t seed,
                                     DType dtype = DType::f32) {
  const auto draw = [&](RandomTensor tensor, Index count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (Index i = 0; i < count; ++i)
      values[i] = round_to(dtype, static_cast<float>(normal(seed, tensor, i)));
    return values;
  };
  return {draw(RandomTensor::q, query_values(shape)), draw(RandomTensor::k, kv_values(shape)),
          draw(RandomTensor::v, v_values(shape)), draw(RandomTensor::dout, out_values(shape))};
}

template <class To, class From>
Tensors<To> converted(const Tensors<From>& from) {
  const auto convert = [](const std::vector<From>& x) {
    return std::vector<To>(x.begin(), x.end());
  };
  return {convert(from.q), convert(from.k), convert(from.v), convert(from.dout)};
}

template <class T>
NaiveResult<T> naive(const AttentionShape& shape, const Mask& mask, double scale,
                     const Tensors<T>& in, const NaiveOptions& options = {}) {
  return naive_attention<T>(shape, mask, scale, in.q.data(), in.k.data(), in.v.data(),
                            in.dout.empty() ? nullptr : in.dout.data(), options);
}

inline double default_scale(const AttentionShape& shape) {
  return 1.0 / std::sqrt(static_cast<double>(shape.head_dim));
}

// The bits of values, by which NaNs and zeros are compared, too.
inline std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float x : values) bits.push_back(std::bit_cast<std::uint32_t>(x));
  return bits;
}
// Those of all tensors of an AttentionOutputs or a BlockwiseRun.
template <class Outputs>
std::vector<std::uint32_t> bits_of(const Outputs& outputs) {
  std::vector<std::uint32_t> bits;
  for (const auto* tensor : {&outputs.out, &outputs.lse, &outputs.dq, &outputs.dk, &outputs.dv})
    for (const std::uint32_t x : bits_of(*tensor)) bits.push_back(x);
  return bits;
}

// The largest |a - b|; equal infinities are equal, and any other NaN in the difference, as well as
// another number of values, makes the result NaN, which no `<=` accepts.
template <class A, class B>
double max_abs_error(const A& a, const B& b) {
  if (std::size(a) != std::size(b)) return std::numeric_limits<double>::quiet_NaN();
  double largest = 0;
  for (std::size_t i = 0; i < std::size(a); ++i) {
    const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    const double error = x == y ? 0 : std::abs(x - y);
    if (!(error <= largest)) largest = error;
    if (std::isnan(largest)) break;
  }
  return largest;
}

}  // namespace ringscope

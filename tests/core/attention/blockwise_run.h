// Blockwise attention without any ring: queries and keys cut into parts as a test likes, the parts
// attended one after the other. What rings are compared with, and how the tile code is tested by
// itself.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/attention/blockwise.h"
#include "tests/core/attention/random_problem.h"

namespace ringscope {

// Global positions [first, last) as local rows.
inline LocalRows consecutive_rows(Index first, Index last) {
  return {{{first, 1, last - first}, {last, 1, 0}}, false};
}

// [0, seqlen) in parts of `rows` positions.
inline std::vector<LocalRows> parts_of(Index seqlen, Index rows) {
  std::vector<LocalRows> parts;
  for (Index first = 0; first < seqlen; first += rows)
    parts.push_back(consecutive_rows(first, min_of(first + rows, seqlen)));
  return parts;
}

struct BlockwiseRun {
  std::vector<float> out, lse, dq, dk, dv, dsink;  // dsink: empty
  Index forward_pairs = 0, backward_pairs = 0;
};

namespace blockwise_run_detail {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The given rows of a [heads, seqlen, head_dim] tensor, in `dtype`, at `to`.
inline void gather(DType dtype, const std::vector<float>& tensor, Index heads, Index seqlen,
                   Index head_dim, const LocalRows& rows, std::byte* to) {
  visit_dtype(dtype, [&]<class Stored>(Stored) {
    for (Index head = 0; head < heads; ++head)
      for (Index i = 0; i < rows.size(); ++i)
        for (Index x = 0; x < head_dim; ++x, to += sizeof(Stored)) {
          const Stored value =
              from_float<Stored>(tensor[(head * seqlen + rows.global_position(i)) * head_dim + x]);
          std::memcpy(to, &value, sizeof value);
        }
  });
}

// Writes (or adds) local rows of [heads, rows, width] where they belong in [heads, seqlen, width].
inline void scatter(const float* from, Index heads, Index seqlen, Index width,
                    const LocalRows& rows, bool add, std::vector<float>& tensor) {
  for (Index head = 0; head < heads; ++head)
    for (Index i = 0; i < rows.size(); ++i)
      for (Index x = 0; x < width; ++x, ++from) {
        float& to = tensor[(head * seqlen + rows.global_position(i)) * width + x];
        to = add ? to + *from : *from;
      }
}

}  // namespace blockwise_run_detail

// Every query part attends every key part, in the order given. Buffers start as NaN.
inline BlockwiseRun run_blockwise(const AttentionShape& shape, DType dtype, const Mask& mask,
                                  double scale, const Tensors<float>& in,
                                  const std::vector<LocalRows>& query_parts,
                                  const std::vector<LocalRows>& key_parts, double softcap = 0) {
  using namespace blockwise_run_detail;
  AttentionParams params{shape, dtype, static_cast<float>(scale)};
  params.softcap = softcap;
  const Index s = shape.seqlen, d = shape.head_dim;
  const Index heads = shape.batch * shape.num_heads, heads_kv = shape.batch * shape.num_heads_kv;
  const bool backward = !in.dout.empty();
  BlockwiseScratch scratch(nullptr, shape, backward);

  BlockwiseRun run;
  run.out.assign(query_values(shape), kNan);
  run.lse.assign(heads * s, kNan);
  run.dq.assign(backward ? query_values(shape) : 0, kNan);
  run.dk.assign(backward ? kv_values(shape) : 0, 0.0f);
  run.dv = run.dk;
  const auto stored = [&](const std::vector<float>& tensor, Index count, const LocalRows& rows) {
    Buffer<std::byte> bytes(nullptr, count * rows.size() * d * bytes_of(dtype));
    gather(dtype, tensor, count, s, d, rows, bytes.data());
    return bytes;
  };
  for (const LocalRows& queries : query_parts) {
    const Index rows = queries.size();
    const Buffer<std::byte> q = stored(in.q, heads, queries);
    const Buffer<std::byte> dout = backward ? stored(in.dout, heads, queries) : Buffer<std::byte>();
    const QueryBlock query_block{q.data(), dout.data(), rows};
    const auto floats = [&](Index count) { return Buffer<float>(nullptr, count); };
    Buffer<float> row_max = floats(row_values(params, rows)),
                  lse = floats(row_values(params, rows)), delta = floats(row_values(params, rows)),
                  out = floats(query_values(params, rows)), dq = floats(query_values(params, rows));
    Buffer<double> row_sum(nullptr, row_values(params, rows));
    const SoftmaxState state{row_max.data(), row_sum.data(), out.data(), lse.data()};

    const auto for_key_parts = [&](auto&& attend) {
      for (const LocalRows& keys : key_parts) {
        Buffer<std::byte> kv(nullptr, 2 * kv_values(params, keys.size()) * bytes_of(dtype));
        gather(dtype, in.k, heads_kv, s, d, keys, kv.data());
        gather(dtype, in.v, heads_kv, s, d, keys, kv.data() + kv.size() / 2);
        attend(Region{mask, queries, keys}, KvBlock{kv.data(), keys.size()});
      }
    };
    begin_attention(params, query_block, state);
    for_key_parts([&](const Region& region, const KvBlock& block) {
      run.forward_pairs += attend_block(params, region, query_block, block, state, scratch).pairs;
    });
    finish_attention(params, query_block, state);
    scatter(out.data(), heads, s, d, queries, false, run.out);
    scatter(lse.data(), heads, s, 1, queries, false, run.lse);
    if (!backward) continue;

    const BackwardState backward_state{row_max.data(), row_sum.data(), out.data(), delta.data(),
                                       dq.data()};
    begin_backward(params, query_block, backward_state);
    for_key_parts([&](const Region& region, const KvBlock& block) {
      Buffer<float> gradient(nullptr, 2 * kv_values(params, block.rows));
      run.backward_pairs +=
          attend_block_backward(params, region, query_block, block, backward_state,
                                {gradient.data(), block.rows}, scratch)
              .pairs;
      scatter(gradient.data(), heads_kv, s, d, region.keys, true, run.dk);
      scatter(gradient.data() + gradient.size() / 2, heads_kv, s, d, region.keys, true, run.dv);
    });
    finish_backward(params, query_block, backward_state);
    scatter(dq.data(), heads, s, d, queries, false, run.dq);
  }
  for (std::vector<float>* tensor : {&run.out, &run.dq, &run.dk, &run.dv})
    for (float& x : *tensor) x = round_to(dtype, x);
  return run;
}

// The oracle with the bounds of its rows.
inline NaiveResult<double> naive_with_bounds(const AttentionShape& shape, const Mask& mask,
                                             double scale, const Tensors<float>& in,
                                             const std::vector<float>& sinks = {},
                                             double softcap = 0) {
  NaiveOptions options;
  options.softcap = softcap;
  options.with_bounds = true;
  if (!sinks.empty()) options.sink_logits = sinks.data();
  return naive(shape, mask, scale, converted<double>(in), options);
}

// Every element that f32 can hold is finite, and as near to the oracle's as its row's bound says; the
// smallest numbers of f16 are 2^-24 apart.
template <class Outputs>
void expect_within_bounds(const Outputs& found, const NaiveResult<double>& right,
                          const AttentionShape& shape, DType dtype) {
  const double storage = dtype == DType::bf16 ? 0x1p-7 : dtype == DType::f16 ? 0x1p-10 : 0;
  const double least = dtype == DType::f16 ? 0x1p-25 : 0;
  const double most = std::numeric_limits<float>::max() * (1 - 0x1p-7);
  const auto check = [&](const char* name, const std::vector<float>& values,
                         const std::vector<double>& expected, const RowBound& bound, Index width) {
    ASSERT_EQ(values.size(), expected.size()) << name;
    for (std::size_t at = 0; at < values.size(); ++at) {
      const double size = std::abs(expected[at]);
      const auto row = at / static_cast<std::size_t>(width);
      const double accepted = bound.f32[row] + storage * (size + bound.terms[row]) + least;
      const double off = values[at] == expected[at] ? 0 : std::abs(values[at] - expected[at]);
      ASSERT_TRUE(size > most || off <= accepted)
          << name << " " << at << ": " << values[at] << " for " << expected[at];
    }
  };
  check("out", found.out, right.out, right.bounds.out, shape.value_dim());
  check("lse", found.lse, right.lse, right.bounds.lse, 1);
  check("dq", found.dq, right.dq, right.bounds.dq, shape.head_dim);
  check("dk", found.dk, right.dk, right.bounds.dk, shape.head_dim);
  check("dv", found.dv, right.dv, right.bounds.dv, shape.value_dim());
  check("dsink", found.dsink, right.dsink, right.bounds.dsink, 1);
}

inline double largest_magnitude(const std::vector<double>& values) {
  double largest = 0;
  for (const double x : values)
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  return largest;
}

// Relative rounding error of one store in `dtype`.
inline double unit_roundoff(DType dtype) {
  return dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 0x1p-24;
}

// Errors in units of 1 + the largest magnitude. f32 arithmetic costs some dozens of its roundings;
// a stored result one rounding of its type; gradients are made from the stored output, so several.
template <class Outputs>
void expect_accurate(const Outputs& run, const NaiveResult<double>& oracle, DType dtype) {
  const double arithmetic = 1e-5, storage = unit_roundoff(dtype);
  const auto check = [](const char* name, const std::vector<float>& value,
                        const std::vector<double>& expected, double tolerance) {
    EXPECT_LE(max_abs_error(value, expected), tolerance * (1 + largest_magnitude(expected)))
        << name;
  };
  check("lse", run.lse, oracle.lse, arithmetic);
  check("out", run.out, oracle.out, arithmetic + storage);
  check("dq", run.dq, oracle.dq, arithmetic + 8 * storage);
  check("dk", run.dk, oracle.dk, arithmetic + 8 * storage);
  check("dv", run.dv, oracle.dv, arithmetic + 2 * storage);
  check("dsink", run.dsink, oracle.dsink, arithmetic + 2 * storage);
}

}  // namespace ringscope

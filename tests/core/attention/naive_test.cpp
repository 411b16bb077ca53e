// The oracle itself, against the formula written as loops over single numbers, finite differences,
// and cases small enough to know by hand. Names with a C-number say which claim of the sources they
// check.
#include "core/attention/naive.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "tests/core/attention/locality.h"
#include "tests/core/problem/all_masks.h"

namespace ringscope {
namespace naive_test {

constexpr double kInf = std::numeric_limits<double>::infinity();

// naive.h's formulas, one number after the other, in the widest type there is.
NaiveResult<long double> by_formula(const AttentionShape& shape, const DefinedMask& mask,
                                    double scale, const Tensors<double>& in,
                                    const std::vector<float>& sinks = {}, double softcap = 0) {
  using Real = long double;
  const Index s = shape.seqlen, d = shape.head_dim, d_v = shape.value_dim(),
              queries = shape.queries();
  NaiveResult<Real> result;
  result.out.assign(out_values(shape), 0);
  result.lse.assign(shape.batch * shape.num_heads * queries,
                    -std::numeric_limits<Real>::infinity());
  result.dq.assign(query_values(shape), 0);
  result.dk.assign(kv_values(shape), 0);
  result.dv.assign(v_values(shape), 0);
  result.dsink.assign(sinks.size(), 0);
  for (Index b = 0; b < shape.batch; ++b)
    for (Index h = 0; h < shape.num_heads; ++h)
      for (Index i = shape.first_query(); i < shape.first_query() + queries; ++i) {
        const Index row = (b * shape.num_heads + h) * queries + i - shape.first_query();
        const Index kv_head = b * shape.num_heads_kv + h / (shape.num_heads / shape.num_heads_kv);
        const auto dot = [&](const std::vector<double>& x, const std::vector<double>& y, Index j) {
          const Index width = &y == &in.v ? d_v : d;
          Real sum = 0;
          for (Index c = 0; c < width; ++c)
            sum += Real{x[row * width + c]} * y[(kv_head * s + j) * width + c];
          return sum;
        };
        const auto score = [&](Index j) {
          const Real by_scale = scale * dot(in.q, in.k, j);
          return softcap > 0 ? softcap * std::tanh(by_scale / softcap) : by_scale;
        };
        std::vector<Real> p(s, 0);
        Real largest = -std::numeric_limits<Real>::infinity(), sum = 0;
        if (!sinks.empty()) largest = sinks[h];
        for (Index j = 0; j < s; ++j)
          if (mask.allows(i, j)) largest = std::max(largest, score(j));
        for (Index j = 0; j < s; ++j)
          if (mask.allows(i, j)) sum += p[j] = std::exp(score(j) - largest);
        const Real sink_weight = sinks.empty() ? Real(0) : std::exp(sinks[h] - largest);
        sum += sink_weight;
        result.lse[row] = largest + std::log(sum);
        Real delta = 0;
        for (Index c = 0; c < d_v; ++c) {
          for (Index j = 0; j < s; ++j)
            result.out[row * d_v + c] += p[j] / sum * in.v[(kv_head * s + j) * d_v + c];
          delta += in.dout[row * d_v + c] * result.out[row * d_v + c];
        }
        if (!sinks.empty()) result.dsink[h] -= sink_weight / sum * delta;
        for (Index j = 0; j < s; ++j) {
          const Real cosine = std::cosh(softcap > 0 ? scale * dot(in.q, in.k, j) / softcap : 0),
                     ds = p[j] / sum * (dot(in.dout, in.v, j) - delta) * scale / (cosine * cosine);
          for (Index c = 0; c < d; ++c) {
            const Index at = (kv_head * s + j) * d + c;
            result.dq[row * d + c] += ds * in.k[at];
            result.dk[at] += ds * in.q[row * d + c];
          }
          for (Index c = 0; c < d_v; ++c)
            result.dv[(kv_head * s + j) * d_v + c] += p[j] / sum * in.dout[row * d_v + c];
        }
      }
  return result;
}

template <class A, class B>
void expect_close(const NaiveResult<A>& a, const NaiveResult<B>& b, double tolerance) {
  EXPECT_LE(max_abs_error(a.out, b.out), tolerance);
  EXPECT_LE(max_abs_error(a.lse, b.lse), tolerance);
  EXPECT_LE(max_abs_error(a.dq, b.dq), tolerance);
  EXPECT_LE(max_abs_error(a.dk, b.dk), tolerance);
  EXPECT_LE(max_abs_error(a.dv, b.dv), tolerance);
  EXPECT_LE(max_abs_error(a.dsink, b.dsink), tolerance);
}

NaiveOptions by_rows(Index block_rows, int threads = 1) {
  NaiveOptions options;
  options.block_rows = block_rows;
  options.threads = threads;
  return options;
}

Tensors<double> random_doubles(const AttentionShape& shape, std::uint64_t seed) {
  return converted<double>(random_tensors(shape, seed));
}

TEST(Naive, FollowsTheFormulaUnderEveryMask) {
  for (const Index seqlen : {1, 2, 6, 11})
    for (const DefinedMask& defined : all_masks(seqlen)) {
      SCOPED_TRACE(defined.name());
      const BuiltMask mask(defined);
      const AttentionShape shape{1, 1, 1, seqlen, 3};
      const Tensors<double> in = random_doubles(shape, 1);
      const auto expected = by_formula(shape, defined, 0.7, in);
      for (const Index block_rows : {0, 1, 4})
        expect_close(naive(shape, *mask, 0.7, in, by_rows(block_rows)), expected, 1e-13);
    }
}

TEST(Naive, FollowsTheFormulaForEveryShape) {
  for (const Index batch : {1, 2})
    for (const Index heads_kv : {1, 2, 3})
      for (const Index group : {1, 2, 4})
        for (const Index head_dim : {1, 5, 8}) {
          AttentionShape shape{batch, heads_kv * group, heads_kv, 19, head_dim, group + 3};
          if (head_dim == 5) shape.seqlen_q = 7;
          if (head_dim == 5 && batch == 2) shape.q_offset = 4;
          SCOPED_TRACE(testing::Message() << "batch " << batch << ", heads " << shape.num_heads
                                          << "/" << heads_kv << ", head_dim " << head_dim);
          const DefinedMask causal{.seqlen = 19, .causal = true};
          const BuiltMask mask(causal);
          const Tensors<double> in = random_doubles(shape, 2);
          expect_close(naive(shape, *mask, default_scale(shape), in, by_rows(8)),
                       by_formula(shape, causal, default_scale(shape), in), 1e-13);
          std::vector<float> sinks;
          for (Index h = 0; h < shape.num_heads; ++h) sinks.push_back(2.0f - static_cast<float>(h));
          NaiveOptions options = by_rows(8);
          options.sink_logits = sinks.data();
          expect_close(naive(shape, *mask, default_scale(shape), in, options),
                       by_formula(shape, causal, default_scale(shape), in, sinks), 1e-13);
          options.softcap = 1.25;
          expect_close(naive(shape, *mask, default_scale(shape), in, options),
                       by_formula(shape, causal, default_scale(shape), in, sinks, 1.25), 1e-13);
        }
}

// A row without keys sees its sink alone.
TEST(Naive, LeavesTheSinkToARowWithoutKeys) {
  const AttentionShape shape{1, 1, 1, 4, 2};
  const float sink = 1.5f;
  const Slice slice{{0, 2}, {0, 4}};  // the last two queries attend nothing
  Mask mask{.seqlen = 4};
  mask.slices = &slice;
  mask.num_slices = 1;
  NaiveOptions options;
  options.sink_logits = &sink;
  const auto result = naive(shape, mask, 1, random_doubles(shape, 4), options);
  for (const Index row : {2, 3}) {
    EXPECT_EQ(result.lse[row], 1.5);
    for (const Index x : {0, 1}) {
      EXPECT_EQ(result.out[2 * row + x], 0);
      EXPECT_EQ(result.dq[2 * row + x], 0);
    }
  }
}

TEST(Naive, FloatAgreesWithDouble) {
  const AttentionShape shape{1, 2, 1, 100, 16};
  const Mask mask{.seqlen = 100, .causal = true};
  const Tensors<float> in = random_tensors(shape, 4);
  const auto in_f32 = naive(shape, mask, 0.25, in);
  const auto in_f64 = naive(shape, mask, 0.25, converted<double>(in));
  EXPECT_GT(max_abs_error(in_f32.out, in_f64.out), 0);  // it did compute in another type
  expect_close(in_f32, in_f64, 3e-5);
}

TEST(Naive, WithoutGradientOfTheOutputThereIsNoBackward) {
  const AttentionShape shape{1, 1, 1, 4, 2};
  Tensors<double> in = random_doubles(shape, 5);
  in.dout.clear();
  const auto result = naive(shape, Mask{.seqlen = 4}, 1, in);
  EXPECT_EQ(result.out.size(), 8u);
  EXPECT_TRUE(result.dq.empty() && result.dk.empty() && result.dv.empty());
}

TEST(Naive, ThreadsDoNotShowInTheResultAtAll) {
  const AttentionShape shape{2, 4, 2, 90, 8};
  const Mask mask{.seqlen = 90, .causal = true};
  const Tensors<double> in = random_doubles(shape, 7);
  const auto one = naive(shape, mask, 0.3, in, by_rows(16));
  for (const int threads : {2, 3, 8, 100}) {
    const auto many = naive(shape, mask, 0.3, in, by_rows(16, threads));
    EXPECT_TRUE(std::tie(many.out, many.lse, many.dq, many.dk, many.dv) ==
                std::tie(one.out, one.lse, one.dq, one.dk, one.dv))
        << threads;
  }
}

// Chosen query rows are those of the whole, to the bit, whatever the blocks; and only they are there.
TEST(Naive, ChosenQueriesAreThoseOfTheWhole) {
  const AttentionShape shape{2, 4, 2, 37, 5};
  const auto in = random_doubles(shape, 12);
  const Mask mask{.seqlen = 37, .causal = true};
  const auto all = naive(shape, mask, 0.7, in, by_rows(1));
  for (const std::vector<Index>& queries :
       {std::vector<Index>{0}, {36}, {3, 4, 5}, {0, 7, 8, 20, 36}}) {
    NaiveOptions options = by_rows(1);
    options.queries = queries;
    const auto chosen = naive(shape, mask, 0.7, in, options);
    const auto rows = static_cast<Index>(queries.size());
    ASSERT_EQ(chosen.lse.size(), static_cast<std::size_t>(8 * rows));
    EXPECT_TRUE(chosen.dk.empty() && chosen.dv.empty());
    for (Index head = 0; head < 8; ++head)
      for (Index i = 0; i < rows; ++i) {
        const Index from = head * 37 + queries[i], to = head * rows + i;
        EXPECT_EQ(chosen.lse[to], all.lse[from]);
        for (Index c = 0; c < 5; ++c) {
          EXPECT_EQ(chosen.out[to * 5 + c], all.out[from * 5 + c]);
          EXPECT_EQ(chosen.dq[to * 5 + c], all.dq[from * 5 + c]);
        }
      }
  }
}

TEST(Naive, ProgressGrowsToOne) {
  const AttentionShape shape{1, 2, 1, 50, 4};
  std::vector<double> seen;
  const NaiveOptions options{
      .block_rows = 8, .threads = 2, .queries = {}, .progress = [&](double share) {
        seen.push_back(share);
      }};
  naive(shape, Mask{.seqlen = 50}, 1, random_doubles(shape, 8), options);
  ASSERT_FALSE(seen.empty());
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_GT(seen.front(), 0);
  EXPECT_LT(seen.front(), 1);
  EXPECT_EQ(seen.back(), 1);
}

// Scores chosen freely: q = (1, 0, …), key j = (score j, 0, …), and V the identity, so that row i
// of the output is the softmax weights themselves.
std::vector<double> softmax_of(const std::vector<double>& scores) {
  const Index n = static_cast<Index>(scores.size());
  Tensors<double> in{
      std::vector<double>(n * n), std::vector<double>(n * n), std::vector<double>(n * n), {}};
  for (Index i = 0; i < n; ++i) {
    in.q[i * n] = 1;
    in.k[i * n] = scores[i];
    in.v[i * n + i] = 1;
  }
  auto weights = naive({1, 1, 1, n, n}, Mask{.seqlen = n}, 1, in).out;
  weights.resize(n);  // row 0
  return weights;
}

TEST(Naive, WeightsAreExactWhereTheirSumsAre) {
  EXPECT_EQ(softmax_of({2.5, 2.5, 2.5, 2.5}), (std::vector<double>(4, 0.25)));
  EXPECT_EQ(softmax_of(std::vector<double>(64, -7)), std::vector<double>(64, 1.0 / 64));
  EXPECT_EQ(softmax_of({0, 2000, 0, -2000}), (std::vector<double>{0, 1, 0, 0}));
  EXPECT_EQ(softmax_of({0, -kInf, 0, -kInf}), (std::vector<double>{0.5, 0, 0.5, 0}));
  const std::vector<double> scores = {0.5, -1.25, 3, 0};
  EXPECT_EQ(softmax_of({4096.5, 4094.75, 4099, 4096}), softmax_of(scores));
}

TEST(Naive, ARowOfNothingButMinusInfinityIsOneWithoutKeys) {
  const double q[] = {1}, k[] = {-kInf}, v[] = {1};
  const auto result =
      naive_attention<double>({1, 1, 1, 1, 1}, Mask{.seqlen = 1}, 1, q, k, v, nullptr);
  EXPECT_EQ(result.lse[0], -kInf);
  EXPECT_EQ(result.out[0], 0);
}

class NaiveLocality : public testing::TestWithParam<const char*> {};

TEST_P(NaiveLocality, OfBadRows) {
  const AttentionShape shape{1, 2, 1, 12, 3};
  const MaskSpec spec = MaskSpec::parse(GetParam());
  const Mask mask = spec.for_seqlen(12);
  for (const Index block_rows : {0, 1, 5})
    expect_bad_rows_stay_local(shape, mask, random_doubles(shape, 11), {0, 5, 11},
                               [&](const Tensors<double>& in) {
                                 return naive(shape, mask, 0.5, in, by_rows(block_rows));
                               });
}

INSTANTIATE_TEST_SUITE_P(Masks, NaiveLocality,
                         testing::Values("full", "causal", "window:3", "causal+window:2",
                                         "prefix:4", "documents:4,8", "causal+documents:7,5"),
                         [](const auto& tested) { return test_name(tested.param); });

}  // namespace naive_test
}  // namespace ringscope

// The tile loops, forward and backward, against the f64 oracle and against themselves.
#include "core/attention/blockwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>

#include "core/problem/partition.h"
#include "tests/core/attention/blockwise_run.h"
#include "tests/core/attention/locality.h"

namespace ringscope {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

Index all_pairs(const Mask& mask) {
  Index pairs = 0;
  for (Index i = 0; i < mask.seqlen; ++i) pairs += mask.allowed_keys(i).size();
  return pairs;
}

const char* const kMasks[] = {"full",
                              "causal",
                              "window:20",
                              "causal+window:70",
                              "prefix:100",
                              "documents:90,1,210",
                              "causal+window:9+documents:257,44"};

// Sizes around those of tiles and vectors, and far from any multiple.
class BlockwiseAccuracy : public testing::TestWithParam<std::tuple<DType, Index>> {};

TEST_P(BlockwiseAccuracy, OfEveryMask) {
  const auto [dtype, head_dim] = GetParam();
  const AttentionShape shape{1, 2, 1, 301, head_dim};
  const Tensors<float> in = random_tensors(shape, 21, dtype);
  for (const char* text : kMasks) {
    SCOPED_TRACE(text);
    const MaskSpec spec = MaskSpec::parse(text);
    const Mask mask = spec.for_seqlen(shape.seqlen);
    const auto whole = parts_of(shape.seqlen, shape.seqlen);
    const double scale = static_cast<float>(default_scale(shape));
    const BlockwiseRun run = run_blockwise(shape, dtype, mask, scale, in, whole, whole);
    expect_accurate(run, naive(shape, mask, scale, converted<double>(in)), dtype);
    EXPECT_EQ(run.forward_pairs, all_pairs(mask));
    EXPECT_EQ(run.backward_pairs, all_pairs(mask));
  }
}

INSTANTIATE_TEST_SUITE_P(All, BlockwiseAccuracy,
                         testing::Combine(testing::ValuesIn(kAllDTypes),
                                          testing::Values<Index>(1, 3, 8, 17, 64, 96, 200)),
                         [](const auto& tested) {
                           return std::string(name_of(std::get<0>(tested.param))) + "_head_dim" +
                                  std::to_string(std::get<1>(tested.param));
                         });

TEST(Blockwise, IsAccurateForEverySeqlenAndGroup) {
  for (const Index seqlen : {1, 2, 7, 15, 16, 17, 47, 48, 49, 97, 255, 256, 257, 520})
    for (const Index group : {1, 2, 4}) {
      if (seqlen > 100 && group != 2) continue;  // tiles know no groups
      const AttentionShape shape{2, 2 * group, 2, seqlen, 5};
      SCOPED_TRACE(testing::Message() << "seqlen " << seqlen << ", group " << group);
      const Mask mask{.seqlen = seqlen, .causal = true};
      const Tensors<float> in = random_tensors(shape, 22);
      const auto whole = parts_of(seqlen, seqlen);
      expect_accurate(run_blockwise(shape, DType::f32, mask, 0.5, in, whole, whole),
                      naive(shape, mask, 0.5, converted<double>(in)), DType::f32);
    }
}

TEST(Blockwise, CutsOfTheKeysDoNotShow) {
  const AttentionShape shape{1, 1, 1, 300, 16};
  const Mask mask{.seqlen = 300, .causal = true};
  const Tensors<float> in = random_tensors(shape, 24);
  const auto oracle = naive(shape, mask, 0.25, converted<double>(in));
  for (const Index keys : {1, 10, 100, 256, 299, 300})
    for (const Index queries : {7, 300}) {
      SCOPED_TRACE(testing::Message() << keys << " keys and " << queries << " queries a part");
      expect_accurate(run_blockwise(shape, DType::f32, mask, 0.25, in, parts_of(300, queries),
                                    parts_of(300, keys)),
                      oracle, DType::f32);
    }
}

TEST(Blockwise, EmptyBlocksChangeNothing) {
  const AttentionShape shape{1, 1, 1, 40, 4};
  const Mask mask{.seqlen = 40, .causal = true};
  const Tensors<float> in = random_tensors(shape, 25);
  const std::vector<LocalRows> whole = parts_of(40, 40);
  const LocalRows none = consecutive_rows(40, 40);
  EXPECT_EQ(bits_of(run_blockwise(shape, DType::f32, mask, 0.5, in, {none, whole[0]},
                                  {none, whole[0], none})),
            bits_of(run_blockwise(shape, DType::f32, mask, 0.5, in, whole, whole)));
}

// A row without keys so far, in a block of which other rows see keys.
TEST(C11_RowsMaskedInABlock, GiveNoNan) {
  const AttentionShape shape{1, 1, 1, 64, 4};
  const Mask mask{.seqlen = 64, .causal = true};
  const Tensors<float> in = random_tensors(shape, 27);
  const std::vector<LocalRows> late_first = {consecutive_rows(50, 64), consecutive_rows(20, 50),
                                             consecutive_rows(0, 20)};
  expect_accurate(run_blockwise(shape, DType::f32, mask, 0.5, in, parts_of(64, 64), late_first),
                  naive(shape, mask, 0.5, converted<double>(in)), DType::f32);
}

// A query that is finite until softmax_scale makes it infinite stays with the keys that it may see.
TEST(Blockwise, AQueryThatTheScaleMakesInfiniteLeavesOtherKeysAlone) {
  const AttentionShape shape{1, 1, 1, 8, 1};
  const Mask mask{.seqlen = 8, .causal = true};
  Tensors<float> in = random_tensors(shape, 30);
  in.q[0] = 3e38f;
  const BlockwiseRun run =
      run_blockwise(shape, DType::f32, mask, 2, in, parts_of(8, 8), parts_of(8, 8));
  for (std::size_t key = 1; key < 8; ++key) {
    EXPECT_TRUE(std::isfinite(run.dk[key])) << key;
    EXPECT_TRUE(std::isfinite(run.dv[key])) << key;
  }
}

// All scores -inf, by keys or by a query: out, dQ and the row's part of dK and dV are 0, and nothing
// of what is infinite beside a weight of 0 comes out.
TEST(Blockwise, RowsOfMinusInfinityHaveNoGradient) {
  const AttentionShape shape{1, 1, 1, 8, 2};
  const Mask mask{.seqlen = 8};
  for (const bool by_query : {false, true}) {
    Tensors<float> in = random_tensors(shape, 32);
    for (float& x : in.k) x = std::abs(x);
    if (by_query) {
      in.q[4] = in.q[5] = -kInf;
    } else {
      std::fill(in.q.begin(), in.q.end(), 1.0f);
      std::fill(in.k.begin(), in.k.end(), -kInf);
      in.v[0] = kInf;
    }
    const BlockwiseRun run =
        run_blockwise(shape, DType::f32, mask, 1, in, parts_of(8, 8), parts_of(8, 3));
    const auto oracle = naive(shape, mask, 1, converted<double>(in));
    expect_accurate(run, oracle, DType::f32);
    for (Index x = 4; x < 6; ++x) EXPECT_EQ(run.dq[x], 0) << "by query: " << by_query;
  }
}

// What f64 computes, and f32 can hold, of values whose sums and products overflow f32.
class BlockwiseLargeValues : public testing::TestWithParam<Index> {};

TEST_P(BlockwiseLargeValues, AreFinite) {
  const Index keys = GetParam();
  const auto run_of = [&](const AttentionShape& shape, DType dtype, const Mask& mask, double scale,
                          const Tensors<float>& in) {
    return run_blockwise(shape, dtype, mask, scale, in, parts_of(shape.seqlen, shape.seqlen),
                         parts_of(shape.seqlen, keys));
  };
  // A sum of V that the largest score, which comes last, reduces to nothing.
  Tensors<float> last{.q = std::vector<float>(8, 1),
                      .k = {0, 0, 0, 0, 0, 0, 100, 100},
                      .v = std::vector<float>(8, 2e38f),
                      .dout = {}};
  last.v[6] = last.v[7] = 1;
  const BlockwiseRun one = run_of({1, 1, 1, 4, 2}, DType::f32, Mask{.seqlen = 4}, 1, last);
  EXPECT_EQ(one.out, std::vector<float>(8, 1));
  EXPECT_EQ(one.lse, std::vector<float>(4, 200));

  constexpr float kMost = std::numeric_limits<float>::max();
  const AttentionShape shape{1, 2, 1, 90, 64};
  const Mask mask{.seqlen = 90, .causal = true};
  for (const auto& [v, dout, k, q] :
       {std::array{kMost, 1.0f, 1.0f, 1.0f}, std::array{1e37f, 1.0f, 1.0f, 1.0f},
        std::array{kMost, 1e-3f, 30.0f, 1.0f}, std::array{1e30f, 1e12f, 1e-6f, 1e-6f},
        std::array{1e17f, 1e21f, 1e-3f, 1e-3f}, std::array{1.0f, kMost, 1e-3f, 1e-3f},
        std::array{kMost, 1e-3f, 1e5f, 1e5f}, std::array{1e-36f, 1.0f, 1.0f, 1.0f},
        std::array{1e-12f, 1e-14f, 1.0f, 1.0f}, std::array{1e6f, 1e6f, 1e3f, 1e-3f}})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(testing::Message() << "V " << v << ", dO " << dout << ", K " << k << ", Q " << q
                                      << ", " << name_of(dtype));
      Tensors<float> in = random_tensors(shape, 33);
      const auto times = [&](std::vector<float>& values, float size) {
        const double most = largest_magnitude({values.begin(), values.end()});
        for (float& x : values)
          x = round_to(dtype,
                       static_cast<float>(x * (size / (size == 1 ? 1 : most)) * (1 - 0x1p-8)));
      };
      times(in.v, v), times(in.dout, dout), times(in.k, k), times(in.q, q);
      const BlockwiseRun run = run_of(shape, dtype, mask, 0.125, in);
      expect_within_bounds(run, naive_with_bounds(shape, mask, 0.125, in), shape, dtype);
    }
}

// A score of 10^8 is rounded to 8, so a weight is right only if both passes find the same bits.
TEST_P(BlockwiseLargeValues, HaveTheSameScoresInBothPasses) {
  const Index keys = GetParam();
  const AttentionShape shape{1, 2, 1, 90, 64};
  const Mask mask{.seqlen = 90, .causal = true};
  for (const float dout : {1.0f, 1e-30f}) {
    Tensors<float> in = random_tensors(shape, 35);
    for (float& x : in.q) x *= 3e4f;
    for (float& x : in.k) x *= 3e4f;
    in.dout[0] = dout;
    for (std::vector<float>* tensor : {&in.q, &in.k, &in.v, &in.dout})
      for (float& x : *tensor) x = round_to(DType::bf16, x);
    const BlockwiseRun run =
        run_blockwise(shape, DType::bf16, mask, 0.125, in, parts_of(90, 90), parts_of(90, keys));
    const auto oracle = naive(shape, mask, 0.125, converted<double>(in));
    EXPECT_LE(max_abs_error(run.dv, oracle.dv), 0x1p-7 * largest_magnitude(oracle.dv)) << dout;
  }
}

INSTANTIATE_TEST_SUITE_P(KeysInAPart, BlockwiseLargeValues, testing::Values<Index>(1, 2, 50, 90));

// A softcap leaves a number of scores that overflow f32, and of scaled queries, as the last ones.
TEST(Blockwise, CappedScoresMayOverflow) {
  const AttentionShape shape{1, 2, 1, 70, 8};
  const Mask mask{.seqlen = 70, .causal = true};
  for (const auto& [scale, q, k] :
       {std::array{1e38f, 1.0f, 1.0f}, std::array{1.0f, 1e30f, 1e30f},
        std::array{0.125f, 6e37f, 6e37f}, std::array{0x1p127f, 2.0f, 0x1p-127f}})
    for (const float dout : {0x1p-4f, 0x1p100f}) {
      SCOPED_TRACE(testing::Message() << scale << ", Q " << q << ", K " << k << ", dO " << dout);
      Tensors<float> in = random_tensors(shape, 35);
      for (float& x : in.q) x *= q;
      for (float& x : in.k) x *= k;
      for (float& x : in.dout) x *= dout;
      const BlockwiseRun run =
          run_blockwise(shape, DType::f32, mask, scale, in, parts_of(70, 40), parts_of(70, 50), 5);
      const auto right = naive_with_bounds(shape, mask, scale, in, {}, 5);
      expect_within_bounds(run, right, shape, DType::f32);
      for (std::size_t i = 0; i < run.out.size(); ++i)
        EXPECT_NEAR(run.out[i], right.out[i], 1e-5) << i;
    }
}

// The smallest numbers have few digits: of V, and dP - delta then has none, and of scaled queries.
TEST(Blockwise, SmallestNumbersStayWithinTheirBounds) {
  const AttentionShape shape{1, 1, 1, 40, 4};
  const Mask mask{.seqlen = 40, .causal = true};
  for (const auto& [q, k, v, dout] :
       {std::array{1.0f, 1e-20f, 1e-44f, 1e29f}, std::array{1e-43f, 1.0f, 1e20f, 1.0f}}) {
    Tensors<float> in = random_tensors(shape, 36);
    for (float& x : in.q) x *= q;
    for (float& x : in.k) x *= k;
    for (float& x : in.v) x *= v;
    for (float& x : in.dout) x *= dout;
    expect_within_bounds(
        run_blockwise(shape, DType::f32, mask, 0.3, in, parts_of(40, 40), parts_of(40, 25)),
        naive_with_bounds(shape, mask, 0.3f, in), shape, DType::f32);
  }
}

// Of equal keys, what a row's tiles add to dQ cancels, although each part is beyond f32.
TEST(Blockwise, LargePartsOfDqMayCancel) {
  const AttentionShape shape{1, 1, 1, 512, 4};
  const Mask mask{.seqlen = 512};
  Tensors<float> in = random_tensors(shape, 37);
  for (float& x : in.q) x *= 1e-9f;
  for (float& x : in.k) x = 1;
  for (float& x : in.v) x *= 1e6f;
  for (float& x : in.dout) x *= 1e37f;
  expect_within_bounds(
      run_blockwise(shape, DType::f32, mask, 0.3, in, parts_of(512, 512), parts_of(512, 128)),
      naive_with_bounds(shape, mask, 0.3f, in), shape, DType::f32);
}

// Units are powers of two, so where nothing overflowed no digit changes.
TEST(Blockwise, LargeValuesKeepTheirDigits) {
  const AttentionShape shape{1, 2, 1, 90, 64};
  const Mask mask{.seqlen = 90, .causal = true};
  const auto run_of = [&](const Tensors<float>& in) {
    return run_blockwise(shape, DType::f32, mask, 0.125, in, parts_of(90, 60), parts_of(90, 40));
  };
  const Tensors<float> in = random_tensors(shape, 34);
  const BlockwiseRun plain = run_of(in);
  for (const auto& [v, dout] : {std::pair{0x1p62f, 0x1p-62f}, {0x1p62f, 1.0f}, {1.0f, 0x1p66f}}) {
    Tensors<float> large = in;
    for (float& x : large.v) x *= v;
    for (float& x : large.dout) x *= dout;
    BlockwiseRun run = run_of(large);
    for (float& x : run.out) x /= v;
    for (float& x : run.dv) x /= dout;
    for (std::vector<float>* tensor : {&run.dq, &run.dk})
      for (float& x : *tensor) x = x / v / dout;
    EXPECT_EQ(bits_of(run), bits_of(plain)) << v << " " << dout;
  }
}

// Queries that attend no block at all: out 0, lse -inf, no gradient; buffers were NaN before.
TEST(Blockwise, RowsWithoutAnyKeyAreZero) {
  const AttentionShape shape{1, 1, 1, 8, 3};
  const Mask mask{.seqlen = 8, .causal = true};
  const Tensors<float> in = random_tensors(shape, 28);
  const BlockwiseRun run =
      run_blockwise(shape, DType::f32, mask, 1, in, parts_of(8, 8), {consecutive_rows(4, 8)});
  for (Index i = 0; i < 4; ++i) {
    EXPECT_EQ(run.lse[i], -kInf) << "row " << i;
    for (Index x = 0; x < 3; ++x) {
      EXPECT_EQ(run.out[i * 3 + x], 0) << "row " << i;
      EXPECT_EQ(run.dq[i * 3 + x], 0) << "row " << i;
    }
  }
  for (const std::vector<float>* tensor : {&run.out, &run.dq, &run.dk, &run.dv})
    for (const float x : *tensor) EXPECT_TRUE(std::isfinite(x));
}

// Inputs for which every rounding is exact. Scores: equal keys, so every weight is 1 / number of
// keys.
TEST(BlockwiseExact, EqualKeysGiveTheMeanOfV) {
  for (const DType dtype : kAllDTypes)
    for (const Index keys_per_part : {1, 16, 64}) {
      const AttentionShape shape{1, 1, 1, 64, 6};
      Tensors<float> in = random_tensors(shape, 29, dtype);
      std::fill(in.k.begin(), in.k.end(), 0.5f);
      in.dout.clear();
      std::vector<float> mean(6, 0);
      for (Index j = 0; j < 64; ++j)
        for (Index x = 0; x < 6; ++x) {
          in.v[j * 6 + x] = static_cast<float>((j * 7 + x) % 5 * 16 - 32);
          mean[x] += in.v[j * 6 + x] / 64;
        }
      const BlockwiseRun run = run_blockwise(shape, dtype, Mask{.seqlen = 64}, 1, in,
                                             parts_of(64, 64), parts_of(64, keys_per_part));
      for (Index i = 0; i < 64; ++i)
        for (Index x = 0; x < 6; ++x)
          EXPECT_EQ(run.out[i * 6 + x], round_to(dtype, mean[x]))
              << name_of(dtype) << ", row " << i;
    }
}

// Query i's score is far above all others at key i alone, so it reads that value, unrounded.
TEST(BlockwiseExact, OneHotScoresPickTheirValue) {
  for (const DType dtype : kAllDTypes)
    for (const char* text : {"full", "causal", "window:3", "documents:20,30"}) {
      const AttentionShape shape{1, 1, 1, 50, 50};
      Tensors<float> in = random_tensors(shape, 30, dtype);
      for (std::vector<float>* tensor : {&in.v, &in.dout})
        for (float& x : *tensor) x = std::round(8 * x);  // dP = delta without rounding
      for (Index i = 0; i < 50; ++i)
        for (Index x = 0; x < 50; ++x) in.q[i * 50 + x] = in.k[i * 50 + x] = i == x ? 32.0f : 0.0f;
      const MaskSpec spec = MaskSpec::parse(text);
      const BlockwiseRun run = run_blockwise(shape, dtype, spec.for_seqlen(50), 1, in,
                                             parts_of(50, 50), parts_of(50, 13));
      EXPECT_EQ(run.out, in.v) << text << ", " << name_of(dtype);
      EXPECT_EQ(run.lse, std::vector<float>(50, 1024)) << text << ", " << name_of(dtype);
      EXPECT_EQ(run.dv, in.dout) << text << ", " << name_of(dtype);
      EXPECT_EQ(max_abs_error(run.dk, std::vector<float>(2500, 0)), 0)
          << text << ", " << name_of(dtype);
    }
}

// Weighed as its own key is, not as one that weighs nothing: that would make a NaN.
TEST(Blockwise, AnInfiniteValueMakesInfiniteWhoAttendsIt) {
  const AttentionShape shape{1, 1, 1, 300, 5};
  Tensors<float> in = random_tensors(shape, 32);
  in.v[200 * 5 + 1] = kInf;
  in.dout.clear();
  for (const char* text : {"window:1", "causal"}) {
    const Mask mask = MaskSpec::parse(text).for_seqlen(300);
    const BlockwiseRun run =
        run_blockwise(shape, DType::f32, mask, 0.5, in, parts_of(300, 300), parts_of(300, 300));
    for (Index i = 0; i < 300; ++i)
      for (Index x = 0; x < 5; ++x)
        EXPECT_EQ(run.out[i * 5 + x] == kInf, x == 1 && mask.allows(i, 200)) << text << ", " << i;
  }
}

// Of keys in parts of so many.
class BlockwiseLocality : public testing::TestWithParam<std::tuple<const char*, Index>> {};

TEST_P(BlockwiseLocality, OfBadRows) {
  const auto [text, keys] = GetParam();
  const AttentionShape shape{1, 2, 1, 130, 5};
  const MaskSpec spec = MaskSpec::parse(text);
  const Mask mask = spec.for_seqlen(130);
  const auto queries_in = parts_of(130, 130), keys_in = parts_of(130, keys);
  expect_bad_rows_stay_local(
      shape, mask, random_tensors(shape, 31), {0, 70, 129}, [&](const Tensors<float>& in) {
        return run_blockwise(shape, DType::f32, mask, 0.5, in, queries_in, keys_in);
      });
}

INSTANTIATE_TEST_SUITE_P(All, BlockwiseLocality,
                         testing::Combine(testing::Values("full", "causal", "window:40",
                                                          "prefix:20", "causal+window:9",
                                                          "documents:71,59"),
                                          testing::Values<Index>(130, 60)),
                         [](const auto& tested) {
                           return test_name(std::get<0>(tested.param)) + "_rows" +
                                  std::to_string(std::get<1>(tested.param));
                         });

}  // namespace
}  // namespace ringscope

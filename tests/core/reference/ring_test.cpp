// The reference against naive attention in f64, with which tests/core/ring compares the ring that runs.
#include "core/reference/ring.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/attention/views.h"
#include "tests/core/attention/random_problem.h"

namespace ringscope {
namespace {

struct Drawn {
  AttentionShape shape;
  std::string mask;
  Tensors<float> in;
  NaiveResult<double> naive_result;

  Drawn(const AttentionShape& its_shape, const std::string& its_mask, std::uint64_t seed)
      : shape(its_shape), mask(its_mask), in(random_tensors(shape, seed, DType::f32)) {
    naive_result = naive(shape, MaskSpec::parse(mask).for_seqlen(shape.seqlen), scale(),
                         converted<double>(in), {});
  }
  double scale() const { return default_softmax_scale(shape.head_dim); }

  NaiveResult<double> by_reference(PartitionKind kind, int world_size, bool backward = true) const {
    const MaskSpec spec = MaskSpec::parse(mask);
    const Tensors<double> f64 = converted<double>(in);
    return reference::ring_attention(shape, {spec.for_seqlen(shape.seqlen), scale()},
                                     {kind, shape.seqlen, world_size}, f64.q.data(), f64.k.data(),
                                     f64.v.data(), backward ? f64.dout.data() : nullptr);
  }
};

// Equal up to the rounding of sums in another order; -inf and NaN agree only with the same.
void expect_close(const std::vector<double>& actual, const std::vector<double>& expected,
                  double tolerance, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i]) continue;
    ASSERT_LE(std::abs(actual[i] - expected[i]), tolerance) << what << "[" << i << "]";
  }
}

void expect_close(const NaiveResult<double>& actual, const NaiveResult<double>& expected,
                  double tolerance) {
  expect_close(actual.out, expected.out, tolerance, "out");
  expect_close(actual.lse, expected.lse, tolerance, "lse");
  expect_close(actual.dq, expected.dq, tolerance, "dq");
  expect_close(actual.dk, expected.dk, tolerance, "dk");
  expect_close(actual.dv, expected.dv, tolerance, "dv");
}

const char* const kMasks[] = {"full",
                              "causal",
                              "window:3",
                              "causal+window:4",
                              "prefix:5",
                              "documents:4,1,8",
                              "causal+documents:4,1,8"};

TEST(Reference, IsNaiveAttention) {
  for (const AttentionShape shape :
       {AttentionShape{2, 6, 3, 13, 4}, AttentionShape{1, 2, 2, 13, 5, 3}})
    for (const char* mask : kMasks) {
      const Drawn drawn(shape, mask, 7);
      for (const PartitionKind kind : kAllPartitions)
        for (const int world_size : {1, 2, 3, 4, 7, 16}) {  // 16 ranks: three hold nothing
          SCOPED_TRACE(std::string(mask) + " " + std::string(name_of(kind)) + " " +
                       std::to_string(world_size));
          expect_close(drawn.by_reference(kind, world_size), drawn.naive_result, 1e-13);
        }
    }
}

TEST(Reference, CountsASinkOnceWhateverTheRanks) {
  const Drawn drawn({1, 1, 1, 13, 4}, "causal", 9);
  const float sink = 0.75f;
  NaiveOptions options;
  options.sink_logits = &sink;
  const MaskSpec spec = MaskSpec::parse(drawn.mask);
  const Tensors<double> in = converted<double>(drawn.in);
  const NaiveResult<double> right =
      naive(drawn.shape, spec.for_seqlen(13), drawn.scale(), in, options);
  for (const int world_size : {1, 2, 5})
    expect_close(reference::ring_attention(drawn.shape, {spec.for_seqlen(13), drawn.scale(), sink},
                                           {PartitionKind::zigzag, 13, world_size}, in.q.data(),
                                           in.k.data(), in.v.data(), in.dout.data()),
                 right, 1e-13);
}

TEST(Reference, LeavesGradientsOutOfAForwardPass) {
  const Drawn drawn({1, 2, 1, 9, 4}, "causal", 8);
  const NaiveResult<double> result = drawn.by_reference(PartitionKind::zigzag, 3, false);
  expect_close(result.out, drawn.naive_result.out, 1e-13, "out");
  EXPECT_TRUE(result.dq.empty() && result.dk.empty() && result.dv.empty());
}

// Equal keys give the mean of V, to the last bit where it is a binary fraction.
TEST(Reference, IsExactWhereItMustBe) {
  const AttentionShape shape{1, 1, 1, 8, 1};
  const std::vector<double> zeros(8, 0), v = {1, 2, 3, 4, 5, 6, 7, 8};
  for (const PartitionKind kind : kAllPartitions)
    for (const int world_size : {1, 2, 4, 8}) {
      const NaiveResult<double> result = reference::ring_attention(
          shape, {MaskSpec::parse("full").for_seqlen(8), 1}, {kind, 8, world_size}, zeros.data(),
          zeros.data(), v.data(), nullptr);
      EXPECT_EQ(result.out, std::vector<double>(8, 4.5));
      EXPECT_EQ(result.lse, std::vector<double>(8, std::log(8.0)));
    }
}

}  // namespace
}  // namespace ringscope

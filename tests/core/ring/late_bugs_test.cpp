// Bugs that other implementations of ring attention found late, each with a test that shows it at
// once. (Blocks that are read or overwritten before a transfer is over: schedule_model_test.cpp; work
// that is another rank's: invariants_test.cpp; axes mistaken for each other, stale blocks, and another
// number in the place of lse: ring_grid_test.cpp.)
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/core/ring/ring_case.h"
#include "tests/schemes.h"

namespace ringscope {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Problem config_of(const AttentionShape& shape, PartitionKind partition, int world_size,
                  const char* mask = "full") {
  Problem config;
  config.shape = shape;
  config.softmax_scale = 1.0f;
  config.mask = MaskSpec::parse(mask);
  config.partition = partition;
  config.world_size = world_size;
  config.backward = true;
  return config;
}

// Overflow in the merge of partial results: one owner's scores are 1e4, all others' -1e4, and every
// rank meets them in another order.
TEST(LateBug, OverflowWhereOneBlockOutweighsTheOthers) {
  constexpr int n = 4;
  const AttentionShape shape{1, 1, 1, 8, 1};
  for (int heavy = 0; heavy < n; ++heavy)
    for (const Scheme* scheme : kRunSchemes) {
      AttentionInputs in{
          std::vector<float>(8, 1), std::vector<float>(8, -1e4f), std::vector<float>(8, 9), {}};
      in.k[2 * heavy] = in.k[2 * heavy + 1] = 1e4f;
      in.v[2 * heavy] = 1, in.v[2 * heavy + 1] = 3;
      Problem config = config_of(shape, PartitionKind::contiguous, n);
      config.scheme = scheme;
      const AttentionOutputs outputs = run_on_threads(config, in).outputs;
      EXPECT_EQ(outputs.out, std::vector<float>(8, 2)) << "owner " << heavy;
      for (const float lse : outputs.lse) EXPECT_NEAR(lse, 1e4 + std::log(2.0), 1e-3);
      std::vector<float> dv(8, 0);
      dv[2 * heavy] = dv[2 * heavy + 1] = 4;  // half of each of 8 rows
      EXPECT_LE(max_abs_error(outputs.dv, dv), 4e-3);
    }
}

// The output rounded at every hop: the error would grow with world_size. Rounded once, every value
// is within half a unit in its own last place of the exact result, on any number of ranks.
TEST(LateBug, OutputRoundedAtEveryHop) {
  const AttentionShape shape{1, 2, 2, 512, 8};
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const RingReference reference(shape, dtype, "causal", 0.5f, 53);
    for (const int n : {1, 4, 16}) {
      const AttentionOutputs outputs =
          run_on_threads(reference.config(PartitionKind::zigzag, n), reference.inputs).outputs;
      for (std::size_t i = 0; i < outputs.out.size(); ++i) {
        const double exact = reference.oracle.out[i];
        ASSERT_LE(std::abs(outputs.out[i] - exact), unit_roundoff(dtype) * std::abs(exact) + 1e-5)
            << name_of(dtype) << ", world_size " << n << ", element " << i;
      }
      ASSERT_LE(max_abs_error(outputs.lse, reference.oracle.lse), 1e-5) << "world_size " << n;
    }
  }
}

// Comparisons that can't fail: a NaN passes `error > tolerance`.
TEST(LateBug, NanPassesTheComparison) {
  const std::vector<float> good = {1, 2}, bad = {1, kNan};
  EXPECT_FALSE(max_abs_error(bad, good) <= 1e30);
  EXPECT_FALSE(max_abs_error(good, bad) <= 1e30);
  EXPECT_FALSE(max_abs_error(bad, bad) <= 1e30);
  EXPECT_FALSE(max_abs_error(std::vector<float>{kNan, 0}, good) <= 1e30);
  EXPECT_FALSE(max_abs_error(good, std::vector<float>{1}) <= 1e30);
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(max_abs_error(std::vector<float>{-inf}, std::vector<float>{-inf}), 0);
  EXPECT_FALSE(max_abs_error(std::vector<float>{-inf}, std::vector<float>{inf}) <= 1e30);
}

}  // namespace
}  // namespace ringscope

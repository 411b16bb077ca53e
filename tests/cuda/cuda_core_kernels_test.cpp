// Steps 01 to 04 of the ladder: against the oracle, and where results are exact by construction bit
// for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "cuda/kernels/kernels.h"
#include "tests/cuda/ring_step_harness.h"

namespace ringscope::cuda {
namespace {

using KernelEntry = const ForwardKernel& (*)();

class CudaCoreKernel : public testing::TestWithParam<KernelEntry> {
 protected:
  void SetUp() override {
    if (skip_without_device(kernel().limits)) return;
  }
  static const ForwardKernel& kernel() { return GetParam()(); }
  static int world_size(int wanted) { return kernel().carries_state ? wanted : 1; }
};

INSTANTIATE_TEST_SUITE_P(Ladder, CudaCoreKernel,
                         testing::Values(naive_kernel, online_softmax_kernel, shared_tiles_kernel,
                                         register_tiles_kernel),
                         [](const auto& tested) { return std::string(tested.param().name); });

TEST_P(CudaCoreKernel, MatchesTheOracle) {
  const int tiles = static_cast<int>(kernel().tiles.size());
  for (const StepCase& tested : awkward_cases(DType::f32, {8, 64, 1, 20, 128, 67}, tiles))
    expect_forward_matches_oracle(kernel(), tested);
}

// Instances for 65 to 128 and 129 to 256 columns, in every tile.
TEST_P(CudaCoreKernel, TakesHeadDimsUpTo256InEveryTile) {
  for (int tile = 0; tile < static_cast<int>(kernel().tiles.size()); ++tile)
    for (const int head_dim : {65, 96, 128, 129, 200, 256}) {
      StepCase tested{.seqlen = 83, .head_dim = head_dim, .mask = "causal"};
      tested.partition = PartitionKind::zigzag;
      tested.world_size = 2;
      tested.tile = tile;
      tested.seed = static_cast<std::uint64_t>(head_dim + tile);
      expect_forward_matches_oracle(kernel(), tested);
    }
}

// All scores equal: every P is 1, row_sum counts keys, and out is the mean of integers.
TEST_P(CudaCoreKernel, EqualKeysGiveTheMeanBitForBit) {
  for (const int world : {1, 3}) {
    StepCase tested{.heads = 1, .seqlen = 77, .head_dim = 36};
    tested.world_size = world_size(world);
    tested.partition = PartitionKind::striped;
    Tensors<float> in = random_tensors(tested.shape(), 3);
    for (Index i = 0; i < tested.seqlen * tested.head_dim; ++i) {
      in.k[i] = in.k[i % tested.head_dim];
      in.v[i] = std::round(8 * in.v[i]);
    }
    const ForwardRun run = run_forward(kernel(), tested, in);
    for (Index x = 0; x < tested.head_dim; ++x) {
      float sum = 0;
      for (Index j = 0; j < tested.seqlen; ++j) sum += in.v[j * tested.head_dim + x];
      for (Index i = 0; i < tested.seqlen; ++i)
        ASSERT_EQ(run.out[i * tested.head_dim + x], sum / static_cast<float>(tested.seqlen))
            << "row " << i << " column " << x;
    }
  }
}

// One score so far above the others that their exp is 0: out is that key's V, also when the other
// keys came first and had P = 1 then.
TEST_P(CudaCoreKernel, OneHotScoresPickTheirValueBitForBit) {
  for (const int world : {1, 4}) {
    StepCase tested{.heads = 1, .seqlen = 64, .head_dim = 64};
    tested.world_size = world_size(world);
    tested.partition = PartitionKind::fold;
    Tensors<float> in = random_tensors(tested.shape(), 4);
    const Index d = tested.head_dim;
    std::fill(in.q.begin(), in.q.end(), 0.0f);
    std::fill(in.k.begin(), in.k.end(), 0.0f);
    const auto picked = [&](Index i) { return (7 * i + 3) % tested.seqlen; };
    for (Index i = 0; i < tested.seqlen; ++i) {
      in.k[i * d + i] = 1;
      in.q[i * d + picked(i)] = 1000;
    }
    const ForwardRun run = run_forward(kernel(), tested, in);
    for (Index i = 0; i < tested.seqlen; ++i)
      for (Index x = 0; x < d; ++x)
        ASSERT_EQ(run.out[i * d + x], in.v[picked(i) * d + x]) << "row " << i << " column " << x;
  }
}

TEST_P(CudaCoreKernel, HugeScoresStayFinite) {
  for (const float deviation : {1e4f, -1e4f}) {
    StepCase tested{.seqlen = 70, .head_dim = 32, .mask = "causal"};
    tested.world_size = world_size(3);
    tested.score_deviation = deviation;
    const Tensors<float> in = random_tensors(tested.shape(), 5);
    const ForwardRun run = run_forward(kernel(), tested, in);
    const ExactForward exact = exact_forward(tested, in);
    for (std::size_t i = 0; i < run.out.size(); ++i) ASSERT_TRUE(std::isfinite(run.out[i])) << i;
    for (std::size_t i = 0; i < run.lse.size(); ++i)
      ASSERT_LE(std::abs(run.lse[i] - exact.lse[i]), 1e-6 * std::abs(exact.lse[i]) + 1e-2) << i;
  }
}

// What ranks after this one hold is not for it: with a causal mask on contiguous rows their steps
// are skipped, or reach the kernel as steps without pairs.
TEST_P(CudaCoreKernel, NanInKeysOfLaterRanksStaysThere) {
  if (!kernel().carries_state) GTEST_SKIP() << "takes no part in a ring";
  for (const bool skip_empty : {true, false}) {
    StepCase tested{.heads = 1, .seqlen = 60, .head_dim = 16, .mask = "causal"};
    tested.world_size = 3;
    tested.skip_empty = skip_empty;
    Tensors<float> in = random_tensors(tested.shape(), 6);
    const ForwardRun clean = run_forward(kernel(), tested, in);
    const Index finite_values = 40 * tested.head_dim;  // of ranks 0 and 1
    std::fill(in.k.begin() + finite_values, in.k.end(), std::nanf(""));
    std::fill(in.v.begin() + finite_values, in.v.end(), std::nanf(""));
    const ForwardRun run = run_forward(kernel(), tested, in);
    for (Index i = 0; i < finite_values; ++i) ASSERT_EQ(run.out[i], clean.out[i]) << i;
    EXPECT_TRUE(std::isnan(run.out.back()));
  }
}

TEST_P(CudaCoreKernel, RefusesWhatItDoesNotTake) {
  ForwardStep good;
  good.shape = {1, 4, 2, 0, 0, 64};
  good.first = good.last = true;
  const auto launched = [](const ForwardStep& step, DType dtype, int tile) {
    kernel().launch(step, dtype, tile, nullptr);
  };
  EXPECT_NO_THROW(launched(good, DType::f32, 0));
  EXPECT_THROW(launched(good, DType::bf16, 0), InputError);
  EXPECT_THROW(launched(good, DType::f32, -1), InputError);
  EXPECT_THROW(launched(good, DType::f32, static_cast<int>(kernel().tiles.size())), InputError);
  ForwardStep bad = good;
  bad.shape.head_dim = 257;
  EXPECT_THROW(launched(bad, DType::f32, 0), InputError);
  bad = good;
  bad.shape.heads_kv = 3;
  EXPECT_THROW(launched(bad, DType::f32, 0), InputError);
  bad = good;
  bad.last = false;
  if (kernel().carries_state)
    EXPECT_NO_THROW(launched(bad, DType::f32, 0));
  else
    EXPECT_THROW(launched(bad, DType::f32, 0), InputError);
}

}  // namespace
}  // namespace ringscope::cuda

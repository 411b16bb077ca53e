// Step 05 of the ladder against the oracle.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "cuda/kernels/kernels.h"
#include "tests/cuda/ring_step_harness.h"

#ifdef RINGSCOPE_MODEL
#include "cuda/model/tensor_core.h"
#endif

namespace ringscope::cuda {
namespace {

class TensorCores : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (skip_without_device(kernel().limits)) return;
  }
  static const ForwardKernel& kernel() { return tensor_cores_kernel(); }
  static int tiles() { return static_cast<int>(kernel().tiles.size()); }

  // Every compiled instance with elements of the parameter.
  template <class F>
  static void for_each_instance(F&& f) {
    for (int tile = 0; tile < tiles(); ++tile)
      for (const int head_dim : {64, 128}) {
        StepCase tested{.seqlen = 150, .head_dim = head_dim, .mask = "causal"};
        tested.dtype = GetParam();
        tested.tile = tile;
        tested.seed = static_cast<std::uint64_t>(tile + head_dim);
        f(tested);
      }
  }
};

INSTANTIATE_TEST_SUITE_P(Ladder, TensorCores, testing::Values(DType::bf16, DType::f16),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

// Five head_dims and four tiles: all pairs come up. On the model, which is slow, the types share
// the cases, because the kernel's way does not depend on the type.
TEST_P(TensorCores, MatchTheOracle) {
  const std::vector<StepCase> cases = awkward_cases(GetParam(), {64, 128, 64, 128, 128}, tiles());
  for (std::size_t i = 0; i < cases.size(); ++i) {
#ifdef RINGSCOPE_MODEL
    if ((i % 3 == 0) != (GetParam() == DType::f16)) continue;
#endif
    expect_forward_matches_oracle(kernel(), cases[i]);
  }
}

TEST_P(TensorCores, MatchTheOracleInEveryInstance) {
  for_each_instance([](StepCase tested) {
    tested.partition = PartitionKind::zigzag;
    tested.world_size = 2;
    expect_forward_matches_oracle(kernel(), tested);
    tested.seqlen = 290;  // full tiles between partial ones, and buffers that come round
    tested.world_size = 1;
    tested.heads = 1;
    tested.mask = "causal+window:200";
    tested.score_deviation = -3;
    expect_forward_matches_oracle(kernel(), tested);
  });
}

TEST_P(TensorCores, MatchTheOracleUnderAllSchedules) {
  StepCase tested{.heads = 1, .seqlen = 200, .mask = "causal"};
  tested.dtype = GetParam();
  tested.score_deviation = -1;
  under_all_schedules([&] { expect_forward_matches_oracle(kernel(), tested); });
}

// softmax_scale 0: all allowed keys weigh the same, and those that are not allowed nothing.
TEST_P(TensorCores, TakeAScaleOfZero) {
  for_each_instance([](StepCase tested) {
    tested.heads = 1;
    tested.score_deviation = 0;
    expect_forward_matches_oracle(kernel(), tested);
  });
}

// Keys that no row of a block's tile may attend cannot reach it, not even as NaN.
TEST_P(TensorCores, KeepNanOfUnneededKeysOut) {
  for_each_instance([](StepCase tested) {
    tested.heads = 1;
    const int clean_rows = kernel().tiles[tested.tile].rows;  // the first row tile
    Tensors<float> in = random_tensors(tested.shape(), 1, tested.dtype);
    for (std::size_t i = static_cast<std::size_t>(clean_rows) * tested.head_dim; i < in.k.size();
         ++i)
      in.k[i] = in.v[i] = std::numeric_limits<float>::quiet_NaN();
    const ForwardRun run = run_forward(kernel(), tested, in);
    for (int row = 0; row < tested.seqlen; ++row) {
      const float out = run.out[static_cast<std::size_t>(row) * tested.head_dim];
      EXPECT_EQ(std::isfinite(out), row < clean_rows) << "row " << row;
    }
  });
}

TEST_P(TensorCores, RefuseWhatTheyCannotCompute) {
  ForwardStep step;
  step.shape = {.rows_q = 1, .rows_k = 1, .head_dim = 96};
  EXPECT_THROW(kernel().launch(step, GetParam(), 0, nullptr), InputError);
  step.shape.head_dim = 64;
  EXPECT_THROW(kernel().launch(step, DType::f32, 0, nullptr), InputError);
  EXPECT_THROW(kernel().launch(step, GetParam(), tiles(), nullptr), InputError);
}

#ifdef RINGSCOPE_MODEL
TEST_P(TensorCores, ReadSharedMemoryWithoutBankConflicts) {
  const std::int64_t before = model::bank_conflicts();
  for_each_instance([](const StepCase& tested) {
    run_forward(kernel(), tested, random_tensors(tested.shape(), 1, tested.dtype));
  });
  EXPECT_EQ(model::bank_conflicts() - before, 0);
}
#endif

}  // namespace
}  // namespace ringscope::cuda

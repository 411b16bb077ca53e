// Kernels 08 and 09 against the oracle, on the host model and on a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cuda/kernels/kernels.h"
#include "tests/cuda/ring_step_harness.h"

namespace ringscope::cuda {
namespace {

#ifdef RINGSCOPE_MODEL
constexpr bool kOnModel = true;
#else
constexpr bool kOnModel = false;
#endif

std::vector<StepCase> cases_of(const BackwardKernel& kernel, DType dtype,
                               const std::vector<int>& head_dims) {
  return awkward_cases(dtype, head_dims, static_cast<int>(kernel.tiles.size()));
}

TEST(BackwardTiled, MatchesTheOracleAtAnyHeadDim) {
  const BackwardKernel& kernel = backward_tiled_kernel();
  if (skip_without_device(kernel.limits)) return;
  for (const StepCase& tested :
       cases_of(kernel, DType::f32, {64, 3, 20, 128, 1, 72, 7, 66, 130, 32, 9}))
    expect_backward_matches_oracle(kernel, tested);
}

TEST(BackwardTiled, MatchesTheOracleInEveryInstance) {
  const BackwardKernel& kernel = backward_tiled_kernel();
  if (skip_without_device(kernel.limits)) return;
  for (int tile = 0; tile < static_cast<int>(kernel.tiles.size()); ++tile)
    for (const int head_dim : {64, 128, 192, 253, 256})
      expect_backward_matches_oracle(kernel, {.seqlen = 100,
                                              .head_dim = head_dim,
                                              .mask = "causal",
                                              .partition = PartitionKind::zigzag,
                                              .world_size = 2,
                                              .tile = tile});
}

// The model takes its time for tensor cores: there the types take turns, and most cases have the
// smaller tile and few heads.
void expect_halves_match(DType dtype, std::size_t turn) {
  const BackwardKernel& kernel = backward_tensor_cores_kernel();
  if (skip_without_device(kernel.limits)) return;
  std::vector<StepCase> cases = cases_of(kernel, dtype, {64, 128, 64, 128, 128});
  for (std::size_t i = 0; i < cases.size(); ++i) {
    StepCase& tested = cases[i];
    if (kOnModel) {
      if (i % 2 != turn) continue;
      tested.tile = i % 5 == 0 ? 0 : 1;
      tested.batch = 1;
      if (tested.heads > 2) tested.heads = 2, tested.heads_kv = 1;
      if (tested.seqlen > 60) tested.world_size = std::min(tested.world_size, 3);
      if (tested.seqlen > 200) tested.heads = tested.heads_kv = 1;
      tested.only_step = std::min(tested.only_step, tested.world_size - 1);
    }
    expect_backward_matches_oracle(kernel, tested);
  }
}

TEST(BackwardTensorCores, MatchTheOracleInBf16) { expect_halves_match(DType::bf16, 0); }
TEST(BackwardTensorCores, MatchTheOracleInF16) { expect_halves_match(DType::f16, 1); }

TEST(BackwardTensorCores, MatchTheOracleInEveryInstance) {
  const BackwardKernel& kernel = backward_tensor_cores_kernel();
  if (skip_without_device(kernel.limits)) return;
  for (int tile = 0; tile < static_cast<int>(kernel.tiles.size()); ++tile)
    for (const int head_dim : {64, 128})
      for (const DType dtype : {DType::bf16, DType::f16})
        expect_backward_matches_oracle(kernel, {.heads = 2,
                                                .heads_kv = 1,
                                                .seqlen = 210,  // full tiles, partial ones, a tail
                                                .head_dim = head_dim,
                                                .mask = "causal",
                                                .dtype = dtype,
                                                .tile = tile});
}

std::vector<std::pair<const BackwardKernel*, StepCase>> a_case_of_each() {
  return {{&backward_tiled_kernel(), {.heads = 1, .seqlen = 70, .head_dim = 20, .tile = 2}},
          {&backward_tensor_cores_kernel(),
           {.heads = 1, .seqlen = 150, .head_dim = 64, .dtype = DType::bf16, .tile = 1}}};
}

TEST(Backward, IsTheSameUnderAllSchedules) {
  for (auto [kernel, tested] : a_case_of_each()) {
    if (skip_without_device(kernel->limits)) return;
    tested.mask = "causal+window:50";
    const Tensors<float> in = random_tensors(tested.shape(), tested.seed, tested.dtype);
    const BackwardRun expected = run_backward(*kernel, tested, in);
    under_all_schedules([&] {
      const BackwardRun run = run_backward(*kernel, tested, in);
      EXPECT_EQ(run.dq, expected.dq);
      EXPECT_EQ(run.dk, expected.dk);
      EXPECT_EQ(run.dv, expected.dv);
    });
  }
}

// In step 1 of a causal contiguous ring of two, rank 1 meets rank 0's keys; rank 0 meets none of
// rank 1's, though the step reaches the kernel: zero gradients there, and for rank 0's queries, which
// have row_sum 0 in this step.
TEST(Backward, IsZeroWhereNothingAttends) {
  for (auto [kernel, tested] : a_case_of_each()) {
    if (skip_without_device(kernel->limits)) return;
    tested.mask = "causal";
    tested.world_size = 2;
    tested.only_step = 1;
    tested.skip_empty = false;
    expect_backward_matches_oracle(*kernel, tested);
    const Tensors<float> in = random_tensors(tested.shape(), tested.seed, tested.dtype);
    const BackwardRun run = run_backward(*kernel, tested, in);
    const std::size_t half = run.dq.size() / 2;
    const auto zero = [](float x) { return x == 0; };
    EXPECT_TRUE(std::all_of(run.dq.begin(), run.dq.begin() + half, zero));
    EXPECT_TRUE(std::all_of(run.dk.begin() + half, run.dk.end(), zero));
    EXPECT_TRUE(std::all_of(run.dv.begin() + half, run.dv.end(), zero));
    EXPECT_FALSE(std::all_of(run.dq.begin() + half, run.dq.end(), zero));
  }
}

// Rows of the other side that no row of a tile meets do not reach it, not even as NaN.
TEST(Backward, KeepsNanOfRowsThatDoNotMeetOut) {
  for (auto [kernel, tested] : a_case_of_each()) {
    if (skip_without_device(kernel->limits)) return;
    const int tile = kernel->tiles[tested.tile].rows;
    tested.mask = "documents:" + std::to_string(tile) + "," + std::to_string(tested.seqlen - tile);
    Tensors<float> in = random_tensors(tested.shape(), tested.seed, tested.dtype);
    const std::size_t clean = static_cast<std::size_t>(tile) * tested.head_dim;
    for (auto* tensor : {&in.q, &in.k, &in.v, &in.dout})
      std::fill(tensor->begin() + clean, tensor->end(), std::numeric_limits<float>::quiet_NaN());
    const BackwardRun run = run_backward(*kernel, tested, in);
    for (const auto* gradient : {&run.dq, &run.dk, &run.dv})
      for (std::size_t i = 0; i < gradient->size(); i += 7)
        ASSERT_EQ(std::isfinite((*gradient)[i]), i < clean) << kernel->name << " value " << i;
  }
}

}  // namespace
}  // namespace ringscope::cuda

// Kernels 08, 09 and 11 against the oracle, on the host model and on a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tests/cuda/guarded_array.h"
#include "tests/cuda/ring_step_harness.h"

namespace ringscope::cuda {
namespace {

std::vector<StepCase> cases_of(const Kernel& kernel, DType dtype,
                               const std::vector<int>& head_dims) {
  return awkward_cases(dtype, head_dims, static_cast<int>(kernel.tiles.size()));
}

TEST(BackwardTiled, MatchesTheOracleAtAnyHeadDim) {
  const Kernel& kernel = backward_tiled_kernel;
  if (skip_without_device(kernel.limits)) return;
  for (const StepCase& tested :
       cases_of(kernel, DType::f32, {64, 3, 20, 128, 1, 72, 7, 66, 130, 32, 9}))
    expect_matches_oracle(kernel, tested);
}

TEST(BackwardTiled, MatchesTheOracleInEveryInstance) {
  const Kernel& kernel = backward_tiled_kernel;
  if (skip_without_device(kernel.limits)) return;
  for (int tile = 0; tile < static_cast<int>(kernel.tiles.size()); ++tile)
    for (const int head_dim : {64, 128, 192, 253, 256})
      expect_matches_oracle(kernel, {.seqlen = 100,
                                     .head_dim = head_dim,
                                     .mask = "causal",
                                     .partition = PartitionKind::zigzag,
                                     .world_size = 2,
                                     .tile = tile});
}

class BackwardHalves : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(All, BackwardHalves, testing::Values(DType::bf16, DType::f16),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

// The model takes its time for tensor cores: there the types take turns, and most cases have the
// smaller tile.
void expect_halves_match_the_oracle(const Kernel& kernel, DType dtype) {
  if (skip_without_device(kernel.limits)) return;
  std::vector<StepCase> cases = cases_of(kernel, dtype, {64, 128, 128});
  for (std::size_t i = 0; i < cases.size(); ++i) {
#ifdef RINGSCOPE_MODEL
    if ((dtype == DType::f16) != (i % 3 == 0)) continue;
    if (kernel.tiles.size() > 1) cases[i].tile = i % 5 != 0;
#endif
    expect_matches_oracle(kernel, as_the_model_can(cases[i], 2));
  }
}

TEST_P(BackwardHalves, TensorCoresMatchTheOracle) {
  expect_halves_match_the_oracle(backward_tensor_cores_kernel, GetParam());
}
TEST_P(BackwardHalves, OnePassMatchesTheOracle) {
  expect_halves_match_the_oracle(backward_one_pass_kernel, GetParam());
}

// Queries of the last chunk meet keys of three tiles, and none of a tile before these, which has a
// turn nevertheless.
TEST(OnePass, KeysThatNobodyMeetsPassTheirTurns) {
  for (const Kernel* const kernel : {&backward_tensor_cores_kernel, &backward_one_pass_kernel}) {
    if (skip_without_device(kernel->limits)) return;
    expect_matches_oracle(*kernel, {.heads = 1,
                                    .seqlen = 864,
                                    .mask = "causal+window:304",
                                    .partition = PartitionKind::zigzag,
                                    .world_size = 2,
                                    .dtype = DType::bf16,
                                    .only_step = 1});
  }
}

// Several items a block, of a group of heads, some of which no query meets; and long rows, for whose
// visits all buffers come round again and again.
TEST(OnePass, FewBlocksTakeManyItems) {
#ifdef RINGSCOPE_MODEL
  constexpr Index kLong = 520;
#else
  constexpr Index kLong = 1000;
#endif
  for (const Kernel* kernel : {&backward_one_pass_kernel, &backward_any_order, &backward_by_head}) {
    if (skip_without_device(kernel->limits)) return;
    StepCase tested{.seqlen = 420, .head_dim = 128, .mask = "causal+documents:140,280"};
    tested.partition = PartitionKind::zigzag;
    tested.dtype = DType::bf16;
    tested.skip_empty = false;
    for (const int blocks : {1, 2}) {
      const OnBlocks few(blocks);
      tested.world_size = blocks;
      expect_matches_oracle(*kernel, tested);
    }
    const OnBlocks few(1);
    tested.mask = "causal";
    tested.world_size = 1;
    tested.seqlen = kLong;
    expect_matches_oracle(*kernel, tested);
  }
}

TEST_P(BackwardHalves, TensorCoresMatchTheOracleInEveryInstance) {
  const Kernel& kernel = backward_tensor_cores_kernel;
  if (skip_without_device(kernel.limits)) return;
  for (int tile = 0; tile < static_cast<int>(kernel.tiles.size()); ++tile)
    for (const int head_dim : {64, 128})
      expect_matches_oracle(kernel, {.heads = 2,
                                     .heads_kv = 1,
                                     .seqlen = 210,  // full tiles, partial ones, a tail
                                     .head_dim = head_dim,
                                     .mask = "causal",
                                     .dtype = GetParam(),
                                     .tile = tile});
}

// Of kernel 11 more visits than stages, full and masked ones, of a group of heads: stages are used
// again and again.
TEST(Backward, IsTheSameUnderAllSchedules) {
  const std::pair<const Kernel*, StepCase> all[] = {
      {&backward_tiled_kernel,
       {.heads = 1, .seqlen = 70, .head_dim = 20, .mask = "causal+window:50", .tile = 1}},
      {&backward_tensor_cores_kernel,
       {.heads = 1, .seqlen = 300, .mask = "causal+window:270", .dtype = DType::bf16, .tile = 1}},
      {&backward_one_pass_kernel,
       {.seqlen = 270, .head_dim = 128, .mask = "causal+window:200", .dtype = DType::bf16}},
      {&backward_one_pass_kernel,
       {.seqlen = 270, .mask = "causal+window:200", .dtype = DType::bf16}}};
  for (const auto& [kernel, tested] : all) {
    if (skip_without_device(kernel->limits)) return;
    const OnBlocks few(2);
    expect_same_bits_under_all_schedules(*kernel, tested);
  }
}

std::vector<std::pair<const Kernel*, StepCase>> a_case_of_each() {
  return {{&backward_tiled_kernel, {.heads = 1, .seqlen = 70, .head_dim = 20, .tile = 1}},
          {&backward_tensor_cores_kernel,
           {.heads = 1, .seqlen = 150, .head_dim = 64, .dtype = DType::bf16, .tile = 1}}};
}

// In step 1 of a causal contiguous ring of two, rank 1 meets rank 0's keys; rank 0 meets none of
// rank 1's, though the step reaches the kernel: zero gradients there, and for rank 0's queries,
// which have row_sum 0 in this step.
TEST(Backward, IsZeroWhereNothingAttends) {
  for (auto [kernel, tested] : a_case_of_each()) {
    if (skip_without_device(kernel->limits)) return;
    tested.mask = "causal";
    tested.world_size = 2;
    tested.only_step = 1;
    tested.skip_empty = false;
    expect_matches_oracle(*kernel, tested);
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
    const int tile = std::max(kernel->tiles[tested.tile].rows, kernel->tiles[tested.tile].keys);
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

// What nobody attends has gradient 0, whatever was there before.
TEST(OnePass, StepWithoutQueriesLeavesZeros) {
  if (skip_without_device({})) return;
  constexpr int kRows = 70, kHeadDim = 64;
  const GuardedArray<std::uint16_t> k(std::vector<std::uint16_t>(kRows * kHeadDim, 0x3c00));
  const GuardedArray<RowInterval> allowed(std::vector<RowInterval>(kRows, RowInterval{0, 0}));
  for (const Kernel* kernel : {&backward_tensor_cores_kernel, &backward_one_pass_kernel}) {
    if (skip_without_device(kernel->limits)) return;
    GuardedArray<float> dk(kRows * kHeadDim), dv(kRows * kHeadDim);
    GuardedArray<StepCounters> counters(1);
    BackwardStep step;
    step.shape = {.rows_q = 0, .rows_k = kRows, .head_dim = kHeadDim};
    step.k = step.v = k.data();
    GuardedArray<std::byte> workspace(backward_workspace_bytes(step.shape));
    step.workspace = workspace.data();
    step.allowed_queries = allowed.data();
    step.dk = dk.data();
    step.dv = dv.data();
    step.counters = counters.data();
    kernel->launch(step, DType::f16, 0, nullptr);
    RINGSCOPE_CUDA(cudaDeviceSynchronize());
    const std::vector<float> zeros(kRows * kHeadDim, 0.0f);
    EXPECT_EQ(dk.download(), zeros);
    EXPECT_EQ(dv.download(), zeros);
    EXPECT_TRUE(dk.guards_intact() && dv.guards_intact());
  }
}

// One key, or one query, short of a full tile.
TEST(OnePass, TileThatIsFullButForItsLastRow) {
  for (const Kernel* kernel : {&backward_tensor_cores_kernel, &backward_one_pass_kernel}) {
    if (skip_without_device(kernel->limits)) return;
    for (const char* const mask :
         {"prefix:63", "prefix:127", "documents:159,41", "documents:191,9"})
      expect_matches_oracle(
          *kernel,
          {.heads = 1, .seqlen = 200, .head_dim = 128, .mask = mask, .dtype = DType::bf16});
  }
}

}  // namespace
}  // namespace ringscope::cuda

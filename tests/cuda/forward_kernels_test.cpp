// Kernels 01 to 07 on the host model and on a GPU: against the oracle, and where results are exact by
// construction bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "core/base/error.h"
#include "cuda/base/check.h"
#include "cuda/kernels/step_problem.h"
#include "tests/cuda/guarded_array.h"
#include "tests/cuda/ring_step_harness.h"

#ifdef RINGSCOPE_MODEL
#include "cuda/emulator/tensor_core.h"
#endif

namespace ringscope::cuda {
namespace {

using KernelEntry = const Kernel*;

class ForwardKernel : public testing::TestWithParam<KernelEntry> {
 protected:
  void SetUp() override { skip_without_device(kernel().limits); }
  static const Kernel& kernel() { return *GetParam(); }
  static int tiles() { return static_cast<int>(kernel().tiles.size()); }
  static int world_size(int wanted) { return kernel().carries_state ? wanted : 1; }
};

std::string name_of_entry(const testing::TestParamInfo<KernelEntry>& tested) {
  return std::string(tested.param->name);
}

class CudaCoreKernel : public ForwardKernel {};
INSTANTIATE_TEST_SUITE_P(Ladder, CudaCoreKernel,
                         testing::Values(&naive_kernel, &online_softmax_kernel,
                                         &shared_tiles_kernel, &register_tiles_kernel),
                         name_of_entry);

class HalfKernel : public ForwardKernel {};
INSTANTIATE_TEST_SUITE_P(Ladder, HalfKernel,
                         testing::Values(&tensor_cores_kernel, &hopper_kernel,
                                         &hopper_overlap_kernel),
                         name_of_entry);

TEST_P(CudaCoreKernel, MatchesTheOracle) {
  for (const StepCase& tested : awkward_cases(DType::f32, {8, 64, 1, 20, 128, 67}, tiles()))
    expect_matches_oracle(kernel(), tested);
}

// The two types differ in one conversion and one instruction's name. So on the model they take turns.
TEST_P(HalfKernel, MatchesTheOracle) {
  const bool hopper = kernel().limits.hopper;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const std::vector<int> head_dims =
        hopper ? std::vector{64, 128, 128} : std::vector{64, 128, 64, 128, 128};
    const std::vector<StepCase> cases = awkward_cases(dtype, head_dims, tiles());
    for (std::size_t i = 0; i < cases.size(); ++i) {
#ifdef RINGSCOPE_MODEL
      if ((i % (hopper ? 5 : 3) == 0) != (dtype == DType::f16)) continue;
#endif
      expect_matches_oracle(kernel(), as_the_model_can(cases[i], hopper ? 2 : 3));
    }
  }
}

// Instances for 65 to 128 and 129 to 256 columns, in every tile.
TEST_P(CudaCoreKernel, TakesHeadDimsUpTo256InEveryTile) {
  for (int tile = 0; tile < tiles(); ++tile)
    for (const int head_dim : {65, 96, 128, 129, 200, 256})
      expect_matches_oracle(kernel(), {.seqlen = 83,
                                       .head_dim = head_dim,
                                       .mask = "causal",
                                       .partition = PartitionKind::zigzag,
                                       .world_size = 2,
                                       .tile = tile,
                                       .seed = static_cast<std::uint64_t>(head_dim + tile)});
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

// Every compiled instance of kernel 05.
template <class F>
void for_each_tensor_cores_instance(F&& f) {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const int head_dim : {64, 128})
      f(StepCase{.seqlen = 150,
                 .head_dim = head_dim,
                 .mask = "causal",
                 .dtype = dtype,
                 .seed = static_cast<std::uint64_t>(head_dim)});
}

TEST(TensorCores, MatchTheOracleInEveryInstance) {
  const Kernel& kernel = tensor_cores_kernel;
  if (skip_without_device(kernel.limits)) return;
  for_each_tensor_cores_instance([&](StepCase tested) {
    tested.partition = PartitionKind::zigzag;
    tested.world_size = 2;
    expect_matches_oracle(kernel, tested);
    tested.seqlen = 290;  // full tiles between partial ones, and buffers that come round
    tested.world_size = 1;
    tested.heads = 1;
    tested.mask = "causal+window:200";
    tested.score_deviation = -3;
    expect_matches_oracle(kernel, tested);
    // softmax_scale 0: all allowed keys weigh the same, and those that are not allowed nothing.
    tested.score_deviation = 0;
    expect_matches_oracle(kernel, tested);
  });
}

// Keys that no row of a block's tile may attend cannot reach it, not even as NaN.
TEST(TensorCores, KeepNanOfUnneededKeysOut) {
  const Kernel& kernel = tensor_cores_kernel;
  if (skip_without_device(kernel.limits)) return;
  for_each_tensor_cores_instance([&](StepCase tested) {
    tested.heads = 1;
    const int clean_rows = kernel.tiles[tested.tile].rows;  // the first row tile
    Tensors<float> in = random_tensors(tested.shape(), 1, tested.dtype);
    for (std::size_t i = static_cast<std::size_t>(clean_rows) * tested.head_dim; i < in.k.size();
         ++i)
      in.k[i] = in.v[i] = std::numeric_limits<float>::quiet_NaN();
    const ForwardRun run = run_forward(kernel, tested, in);
    for (int row = 0; row < tested.seqlen; ++row) {
      const float out = run.out[static_cast<std::size_t>(row) * tested.head_dim];
      EXPECT_EQ(std::isfinite(out), row < clean_rows) << "row " << row;
    }
  });
}

#ifdef RINGSCOPE_MODEL
TEST(TensorCores, ReadSharedMemoryWithoutBankConflicts) {
  const std::int64_t before = model::bank_conflicts();
  for_each_tensor_cores_instance([](const StepCase& tested) {
    run_forward(tensor_cores_kernel, tested, random_tensors(tested.shape(), 1, tested.dtype));
  });
  EXPECT_EQ(model::bank_conflicts() - before, 0);
}
#endif

// Several items a block, of different lengths, and several key tiles an item. The seed chooses the
// schedule on the model.
TEST(HopperOverlap, FewBlocksTakeManyItems) {
  if (skip_without_device(hopper_overlap_kernel.limits)) return;
  for (const std::uint64_t seed : {0, 1, 2}) {
    StepCase tested{.heads = 3, .heads_kv = 1, .seqlen = 300, .head_dim = 128, .mask = "causal"};
    tested.dtype = DType::bf16;
    tested.seed = seed;
    const auto expect_on = [&](int blocks) {
      const OnBlocks few(blocks);
      expect_matches_oracle(hopper_overlap_kernel, tested);
    };
    expect_on(1);
    tested.mask = "causal+window:40";
    expect_on(2);
    tested.mask = "causal";
    tested.world_size = 2;
    tested.partition = PartitionKind::zigzag;
    expect_on(4);
  }
}

// Buffers that come round again and again are neither read too early nor given back too early under
// any schedule, and Q that is negated is read after that.
TEST(HalfKernels, AllSchedulesGiveTheSameBits) {
  for (const Kernel& kernel : {tensor_cores_kernel, hopper_kernel, hopper_overlap_kernel}) {
    if (skip_without_device(kernel.limits)) return;
    const OnBlocks few(1);
    StepCase tested{.heads = 1, .seqlen = 400, .head_dim = 128, .mask = "causal"};
    tested.dtype = DType::bf16;
    if (!kernel.limits.hopper) {
      tested.seqlen = 200;
      tested.head_dim = 64;
      tested.score_deviation = -1;
    }
    expect_same_bits_under_all_schedules(kernel, tested);
  }
}

// Some of the cases, in the one instance that they have; few in gpu-check's first look.
TEST(Rungs, MatchTheOracle) {
  if (skip_without_device(kRungLimits)) return;
  const std::size_t fewer = std::getenv("RINGSCOPE_SMALL_TESTS") != nullptr ? 4 : 1;
  for (const Kernel& rung : rungs()) {
    const std::vector<StepCase> cases = awkward_cases(DType::bf16, {128});
    for (std::size_t i = 0; i < cases.size();
         i += fewer * (rung.pass() == KernelPass::forward ? 12 : 25))
      expect_matches_oracle(rung, as_the_model_can(cases[i], 2));
  }
}

// Scores that grow from key tile to key tile by less, and by more, than softmax lets them grow before
// it takes a new unit: f16 holds no P that is not brought down, and what a step carries is relative
// to the largest score. The bound of out is P's rounding, 2^-11 or 2^-9 of the largest V, twice.
TEST(Hopper, ScoresThatGrowAreBroughtDownInTime) {
  for (const Kernel* kernel : {&hopper_kernel, &hopper_overlap_kernel, &hopper_without_roles}) {
    if (skip_without_device(kernel->limits)) return;
    for (const float growth : {3.0f, 6.0f, 14.0f}) {  // 4.3, 8.7 and 20 powers of two
      StepCase tested{.heads = 1, .seqlen = 513, .head_dim = 128};
      tested.dtype = kernel->limits.rung ? DType::bf16 : DType::f16;
      tested.score_deviation = std::sqrt(128.0f);
      tested.world_size = kernel == &hopper_kernel ? 2 : 1;
      Tensors<float> in = random_tensors(tested.shape(), 8, tested.dtype);
      std::fill(in.q.begin(), in.q.end(), 0.0f);
      float largest = 0;
      for (Index i = 0; i < tested.seqlen; ++i) {
        in.q[i * 128] = 1;
        in.k[i * 128] = growth * static_cast<float>(i / 128);
      }
      for (const float v : in.v) largest = std::max(largest, std::abs(v));
      const ForwardRun run = run_forward(*kernel, tested, in);
      const ExactForward exact = exact_forward(tested, in);
      const float out_bound = largest * (tested.dtype == DType::f16 ? 0x1p-10f : 0x1p-8f);
      for (std::size_t i = 0; i < run.out.size(); ++i)
        ASSERT_LE(std::abs(run.out[i] - exact.out[i]), out_bound) << growth << " " << i;
      for (std::size_t i = 0; i < run.lse.size(); ++i)
        ASSERT_LE(std::abs(run.lse[i] - exact.lse[i]), 1e-5) << growth << " " << i;
    }
  }
}

// Out in 16 bits is out in f32, rounded; lse is the same.
TEST(Hopper, StoresOutIn16Bits) {
  for (const Kernel* kernel : {&hopper_kernel, &hopper_overlap_kernel}) {
    if (skip_without_device(kernel->limits)) return;
    for (const DType dtype : {DType::bf16, DType::f16}) {
      std::vector<RowInterval> keys;
      for (int i = 0; i < 70; ++i) keys.push_back({0, i});
      StepProblem problem({1, 2, 1, 70, 70, 64}, dtype, KernelPass::forward, keys);
      EXPECT_EQ(problem.pairs(), 2 * 70 * 69 / 2);
      const auto run = [&] {
        problem.poison();
        problem.launch(*kernel, 0, true, true, nullptr);
        RINGSCOPE_CUDA(cudaDeviceSynchronize());
        EXPECT_FALSE(problem.has_nan());
        return problem.outputs();
      };
      const auto whole = run();
      problem.round_out();
      problem.poison();
      EXPECT_TRUE(problem.has_nan());
      const auto rounded = run();
      EXPECT_EQ(rounded[1], whole[1]);
      ASSERT_EQ(rounded[0].size(), whole[0].size());
      for (std::size_t i = 0; i < whole[0].size(); ++i)
        ASSERT_EQ(rounded[0][i], round_to(dtype, whole[0][i])) << i;
    }
    // Of more values than are drawn.
    const std::vector<RowInterval> all(4200, {0, 8});
    EXPECT_EQ(StepProblem({1, 1, 1, 4200, 8, 64}, DType::bf16, KernelPass::forward, all).pairs(),
              4200 * 8);
    ForwardStep step{.shape = {.head_dim = 64}, .first = true, .out_16 = &step};
    EXPECT_THROW(kernel->launch(step, DType::bf16, 0, nullptr), InputError) << "is not the last";
  }
}

// A scale of 0 makes all allowed keys equal: the mean of V.
TEST(Hopper, ScaleOfZeroTakesTheMean) {
  for (const Kernel* kernel : {&hopper_kernel, &hopper_overlap_kernel, &backward_one_pass_kernel}) {
    if (skip_without_device(kernel->limits)) return;
    expect_matches_oracle(*kernel, {.seqlen = 150,
                                    .mask = "causal",
                                    .world_size = 2,
                                    .dtype = DType::f16,
                                    .score_deviation = 0});
  }
}

#ifndef RINGSCOPE_MODEL
// More items than blocks, many tiles an item, and the buffers used many times over.
TEST(Hopper, LongRowsOnADevice) {
  if (skip_without_device(hopper_kernel.limits)) return;
  const OnBlocks few(20);
  for (const Kernel* kernel : {&hopper_kernel, &hopper_overlap_kernel}) {
    for (int tile = 0; tile < static_cast<int>(kernel->tiles.size()); ++tile)
      for (const int head_dim : {64, 128})
        expect_matches_oracle(*kernel, {.heads = 4,
                                        .heads_kv = 2,
                                        .seqlen = 1300,
                                        .head_dim = head_dim,
                                        .mask = "causal",
                                        .dtype = DType::bf16,
                                        .tile = tile});
  }
}
#endif

// Of every kernel, forward or backward.
TEST(Kernels, RefuseWhatTheyDoNotTake) {
  if (skip_without_device({})) return;
  for (const Kernel& kernel : all_kernels()) {
    const DType dtype = kernel.limits.half ? DType::bf16 : DType::f32;
    const auto launched = [&](StepShape shape, DType its_dtype, int tile, bool last = true) {
      ForwardStep forward;
      forward.shape = shape;
      forward.first = true;
      forward.last = last;
      GuardedArray<std::byte> workspace(backward_workspace_bytes(shape));
      BackwardStep backward;
      backward.shape = shape;
      backward.workspace = workspace.data();
      if (kernel.pass() == KernelPass::forward)
        kernel.launch(forward, its_dtype, tile, nullptr);
      else
        kernel.launch(backward, its_dtype, tile, nullptr);
      RINGSCOPE_CUDA(cudaDeviceSynchronize());
    };
    const StepShape good{1, 4, 2, 0, 0, 64};
    EXPECT_NO_THROW(launched(good, dtype, 0)) << kernel.name;
    EXPECT_THROW(launched(good, kernel.limits.half ? DType::f32 : DType::bf16, 0), InputError);
    EXPECT_THROW(launched(good, dtype, -1), InputError);
    EXPECT_THROW(launched(good, dtype, static_cast<int>(kernel.tiles.size())), InputError);
    EXPECT_THROW(launched({1, 4, 2, 0, 0, 257}, dtype, 0), InputError);
    if (kernel.limits.half) {
      EXPECT_THROW(launched({1, 4, 2, 0, 0, 96}, dtype, 0), InputError);
      for (int tile = 0; tile < static_cast<int>(kernel.tiles.size()); ++tile)
        if (!kernel.has_tile({192, 128}, tile)) {
          EXPECT_THROW(launched({1, 4, 2, 0, 0, 192, 128}, dtype, tile), InputError);
        }
    }
    EXPECT_THROW(launched({1, 4, 3, 0, 0, 64}, dtype, 0), InputError);
    if (kernel.carries_state) {
      EXPECT_NO_THROW(launched(good, dtype, 0, false)) << kernel.name;
    } else {
      EXPECT_THROW(launched(good, dtype, 0, false), InputError);
    }
  }
}

}  // namespace
}  // namespace ringscope::cuda

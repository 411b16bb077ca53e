// Kernels 06 and 07 against attention in f64, on all masks and partitions, and 07 on fewer blocks
// than there are items.
#include <gtest/gtest.h>

#include "cuda/kernels/kernels.h"
#include "tests/cuda/ring_step_harness.h"

namespace ringscope::cuda {
namespace hopper_test {

// A few of the awkward cases on the model, where a block of 384 threads takes its time; each kernel
// meets all masks and partitions.
std::vector<StepCase> cases_of(DType dtype) {
  std::vector<StepCase> cases = awkward_cases(dtype, {64, 128, 128}, 2);
#ifdef RINGSCOPE_MODEL
  for (StepCase& c : cases) {
    c.batch = c.heads > 2 ? 1 : c.batch;
    c.world_size = std::min(c.world_size, c.seqlen > 40 ? 2 : 5);
    if (c.only_step >= 0) c.only_step = std::min(c.only_step, c.world_size - 1);
  }
#endif
  return cases;
}

// `every`: of the cases only each so many-th.
void expect_cases(const ForwardKernel& kernel, DType dtype, std::size_t every) {
  if (skip_without_device(kernel.limits)) return;
  const std::vector<StepCase> cases = cases_of(dtype);
  for (std::size_t i = 0; i < cases.size(); i += every)
    expect_forward_matches_oracle(kernel, cases[i]);
}

#ifdef RINGSCOPE_MODEL
constexpr std::size_t kEveryF16 = 5;  // differs in one conversion and one instruction's name
#else
constexpr std::size_t kEveryF16 = 1;
#endif

TEST(Hopper, Bf16MatchesTheOracle) { expect_cases(hopper_kernel(), DType::bf16, 1); }
TEST(Hopper, F16MatchesTheOracle) { expect_cases(hopper_kernel(), DType::f16, kEveryF16); }
TEST(HopperOverlap, Bf16MatchesTheOracle) { expect_cases(hopper_overlap_kernel(), DType::bf16, 1); }
TEST(HopperOverlap, F16MatchesTheOracle) {
  expect_cases(hopper_overlap_kernel(), DType::f16, kEveryF16);
}

// As hopper_overlap_kernel(), on `kBlocks` blocks.
template <int kBlocks>
ForwardKernel on_blocks() {
  ForwardKernel kernel = hopper_overlap_kernel();
  kernel.launch = [](const ForwardStep& step, DType dtype, int tile, cudaStream_t stream) {
    launch_hopper_overlap(step, dtype, tile, kBlocks, stream);
  };
  return kernel;
}

// Several items a block, of different lengths, and several key tiles an item. The seed chooses the
// schedule on the model.
TEST(HopperOverlap, FewBlocksTakeManyItems) {
  if (skip_without_device(hopper_overlap_kernel().limits)) return;
  for (const std::uint64_t seed : {0, 1, 2}) {
    StepCase tested{.heads = 3, .heads_kv = 1, .seqlen = 300, .head_dim = 128, .mask = "causal"};
    tested.dtype = DType::bf16;
    tested.seed = seed;
    expect_forward_matches_oracle(on_blocks<1>(), tested);
    tested.mask = "causal+window:40";
    tested.tile = 1;
    expect_forward_matches_oracle(on_blocks<2>(), tested);
    tested.mask = "causal";
    tested.world_size = 2;
    tested.partition = PartitionKind::zigzag;
    tested.tile = 0;
    expect_forward_matches_oracle(on_blocks<4>(), tested);
  }
}

// Buffers that come round again and again are neither read too early nor given back too early under
// any schedule.
TEST(HopperOverlap, AllSchedulesGiveTheSameBits) {
  if (skip_without_device(hopper_overlap_kernel().limits)) return;
  StepCase tested{.heads = 1, .seqlen = 400, .head_dim = 128, .mask = "causal"};
  tested.dtype = DType::bf16;
  const Tensors<float> in = random_tensors(tested.shape(), tested.seed, tested.dtype);
  for (const ForwardKernel& kernel : {hopper_kernel(), on_blocks<1>()}) {
    const ForwardRun once = run_forward(kernel, tested, in);
    under_all_schedules([&] {
      const ForwardRun again = run_forward(kernel, tested, in);
      EXPECT_EQ(again.out, once.out);
      EXPECT_EQ(again.lse, once.lse);
    });
  }
}

#ifndef RINGSCOPE_MODEL
// More items than multiprocessors, many tiles an item, and the buffers used many times over.
TEST(Hopper, LongRowsOnADevice) {
  for (const ForwardKernel* kernel : {&hopper_kernel(), &hopper_overlap_kernel()}) {
    if (skip_without_device(kernel->limits)) return;
    for (const int tile : {0, 1})
      for (const int head_dim : {64, 128}) {
        StepCase tested{.batch = 2, .heads = 8, .heads_kv = 2, .seqlen = 1300};
        tested.head_dim = head_dim;
        tested.mask = "causal";
        tested.world_size = 1;
        tested.dtype = DType::bf16;
        tested.tile = tile;
        expect_forward_matches_oracle(*kernel, tested);
      }
  }
}
#endif

// A scale of 0 makes all allowed keys equal: the mean of V.
TEST(Hopper, ScaleOfZeroTakesTheMean) {
  for (const ForwardKernel* kernel : {&hopper_kernel(), &hopper_overlap_kernel()}) {
    if (skip_without_device(kernel->limits)) return;
    expect_forward_matches_oracle(*kernel, {.seqlen = 150,
                                            .mask = "causal",
                                            .world_size = 2,
                                            .dtype = DType::f16,
                                            .score_deviation = 0});
  }
}

}  // namespace hopper_test
}  // namespace ringscope::cuda

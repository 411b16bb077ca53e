// Kernel 10 against the oracle, on the host model and on a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cuda/kernels/kernels.h"
#include "tests/cuda/guarded_array.h"
#include "tests/cuda/ring_step_harness.h"

namespace ringscope::cuda {
namespace {

// All masks and partitions, and every tile with both head_dims. On the model, where a block of 384
// or 512 threads takes its time, with fewer heads and ranks, and each case in one of the dtypes.
std::vector<StepCase> cases_of(DType dtype) {
  std::vector<StepCase> cases = awkward_cases(dtype, {64, 128, 128}, 2);
#ifdef RINGSCOPE_MODEL
  std::vector<StepCase> chosen;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if ((dtype == DType::f16) != (i % 3 == 0)) continue;
    StepCase& c = chosen.emplace_back(cases[i]);
    if (c.seqlen > 5) {
      c.batch = 1;
      c.heads_kv = c.heads_kv > 1 ? 2 : 1;
      c.heads = std::min(c.heads, 2 * c.heads_kv);
    }
    c.world_size = std::min(c.world_size, c.seqlen > 40 ? 2 : c.seqlen > 5 ? 3 : 5);
  }
  return chosen;
#else
  return cases;
#endif
}

void expect_all_cases(DType dtype) {
  if (skip_without_device(backward_hopper_kernel().limits)) return;
  for (const StepCase& tested : cases_of(dtype))
    expect_backward_matches_oracle(backward_hopper_kernel(), tested);
}

TEST(BackwardHopper, Bf16MatchesTheOracle) { expect_all_cases(DType::bf16); }
TEST(BackwardHopper, F16MatchesTheOracle) { expect_all_cases(DType::f16); }

// More visits than stages, full and masked ones, of a group of heads: stages are used again and
// again, and whatever the order of threads and copies, the bits are the same.
TEST(BackwardHopper, ManyVisitsGiveTheSameBitsInAnyOrder) {
  if (skip_without_device(backward_hopper_kernel().limits)) return;
  for (const int head_dim : {64, 128}) {
    StepCase tested{.heads = 2,
                    .heads_kv = 1,
                    .seqlen = 270,
                    .head_dim = head_dim,
                    .mask = "causal+window:200",
                    .dtype = DType::bf16};
    tested.tile = head_dim == 64;
    SCOPED_TRACE(to_string(tested));
    const Tensors<float> in = random_tensors(tested.shape(), tested.seed, tested.dtype);
    const BackwardRun expected = run_backward(backward_hopper_kernel(), tested, in);
    under_all_schedules([&] {
      const BackwardRun run = run_backward(backward_hopper_kernel(), tested, in);
      const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
        return a.size() == b.size() &&
               std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
      };
      EXPECT_TRUE(same(run.dq, expected.dq));
      EXPECT_TRUE(same(run.dk, expected.dk));
      EXPECT_TRUE(same(run.dv, expected.dv));
    });
  }
}

// What nobody attends has gradient 0, whatever was there before.
TEST(BackwardHopper, StepWithoutQueriesLeavesZeros) {
  if (skip_without_device(backward_hopper_kernel().limits)) return;
  constexpr int kRows = 70, kHeadDim = 64;
  const GuardedArray<std::uint16_t> k(std::vector<std::uint16_t>(kRows * kHeadDim, 0x3c00));
  const GuardedArray<RowInterval> allowed(std::vector<RowInterval>(kRows, RowInterval{0, 0}));
  GuardedArray<float> dk(kRows * kHeadDim), dv(kRows * kHeadDim);
  GuardedArray<StepCounters> counters(1);
  BackwardStep step;
  step.shape = {.rows_q = 0, .rows_k = kRows, .head_dim = kHeadDim};
  step.k = step.v = k.data();
  step.allowed_queries = allowed.data();
  step.dk = dk.data();
  step.dv = dv.data();
  step.counters = counters.data();
  backward_hopper_kernel().launch(step, DType::f16, 0, nullptr);
  RINGSCOPE_CUDA(cudaDeviceSynchronize());
  const std::vector<float> zeros(kRows * kHeadDim, 0.0f);
  EXPECT_EQ(dk.download(), zeros);
  EXPECT_EQ(dv.download(), zeros);
  EXPECT_TRUE(dk.guards_intact() && dv.guards_intact());
}

// One key short of a full tile.
TEST(BackwardHopper, TileThatIsFullButForItsLastKey) {
  if (skip_without_device(backward_hopper_kernel().limits)) return;
  StepCase tested{.seqlen = 150, .head_dim = 128, .mask = "prefix:63", .dtype = DType::bf16};
  expect_backward_matches_oracle(backward_hopper_kernel(), tested);
  tested.mask = "prefix:127";
  tested.tile = 1;
  expect_backward_matches_oracle(backward_hopper_kernel(), tested);
}

// All scores are 0: P is the same for all keys that a query may attend.
TEST(BackwardHopper, ScaleOfZero) {
  if (skip_without_device(backward_hopper_kernel().limits)) return;
  expect_backward_matches_oracle(backward_hopper_kernel(), {.seqlen = 150,
                                                            .mask = "causal",
                                                            .world_size = 2,
                                                            .dtype = DType::f16,
                                                            .score_deviation = 0});
}

}  // namespace
}  // namespace ringscope::cuda

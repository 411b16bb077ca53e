// Steps of today's models: values narrower than keys, a learned sink per head, fewer queries than keys.
#include <gtest/gtest.h>

#include "tests/cuda/guarded_array.h"
#include "tests/cuda/ring_step_harness.h"

namespace ringscope::cuda {
namespace {

// List lengths without common divisors, so that everything meets everything else.
std::vector<StepCase> cases_of(const Kernel& kernel) {
  const std::vector<HeadDims> dims =
      kernel.limits.half ? std::vector<HeadDims>{{192, 128}, {192, 128}, 128, {192, 128}, 64}
                         : std::vector<HeadDims>{{192, 128}, {20, 67}, 64, {128, 9}, {200, 256}};
  const char* const masks[] = {"causal", "full", "causal+window:40", "documents:60,1,89"};
  // From the end, or with keys after the last query; more than a tile, a few, and one of a decode.
  const struct {
    Index queries, q_offset;
  } placed[] = {{0, 0}, {37, 113}, {140, 4}, {1, 149}, {33, 50}, {5, 145}, {0, 0}};
  std::vector<StepCase> cases;
  for (std::size_t n = 0; n < 14; ++n) {
    const auto [queries, q_offset] = placed[n % std::size(placed)];
    const HeadDims& of = dims[n % dims.size()];
    StepCase added{.heads = n % 3 == 0 ? 1 : 2,
                   .seqlen = 150,
                   .head_dim = static_cast<int>(of.keys),
                   .mask = masks[n % std::size(masks)],
                   .partition = kAllPartitions[n / 2 % 4],
                   .world_size = 1 + static_cast<int>(n % 3),
                   .dtype = !kernel.limits.half ? DType::f32
                            : n % 2 == 0        ? DType::bf16
                                                : DType::f16,
                   .tile = static_cast<int>(n % kernel.tiles.size()),
                   .score_deviation = n % 4 == 3 ? -2.0f : 1.0f,
                   .skip_empty = n % 4 != 1,
                   .seed = 300 + n,
                   .head_dim_v = static_cast<int>(of.values),
                   .queries = queries,
                   .q_offset = q_offset};
    if (n % 5 != 2) added.sinks = {n % 2 == 0 ? 2.5f : -30.0f, 11.0f};
    added.sinks.resize(added.sinks.empty() ? 0 : static_cast<std::size_t>(added.heads));
    cases.push_back(added);
  }
  // One step of a ring, after which some rows have met no key.
  cases.push_back({.seqlen = 140,
                   .head_dim = static_cast<int>(dims[0].keys),
                   .mask = "causal",
                   .partition = PartitionKind::zigzag,
                   .world_size = 2,
                   .dtype = cases[0].dtype,
                   .skip_empty = false,
                   .only_step = 1,
                   .head_dim_v = static_cast<int>(dims[0].values),
                   .sinks = {-1, 3}});
  return cases;
}

class TodaysHeads : public testing::TestWithParam<Kernel> {};
INSTANTIATE_TEST_SUITE_P(Ladder, TodaysHeads, testing::ValuesIn(all_kernels()),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_P(TodaysHeads, MatchTheExactOnes) {
  if (skip_without_device(GetParam().limits)) return;
  for (const StepCase& tested : cases_of(GetParam())) expect_matches_oracle(GetParam(), tested);
}

// More visits than stages, items than blocks, and tiles of every kind.
TEST(LatentHeads, BuffersComeRound) {
  for (const Kernel* kernel : {&tensor_cores_kernel, &hopper_overlap_kernel,
                               &backward_tensor_cores_kernel, &backward_one_pass_kernel}) {
    if (skip_without_device(kernel->limits)) return;
    const OnBlocks few(2);
    StepCase tested{.seqlen = 400, .head_dim = 192, .mask = "causal+window:300"};
    tested.dtype = DType::bf16;
    tested.head_dim_v = 128;
    expect_matches_oracle(*kernel, tested);
  }
}

TEST(LatentHeads, AreTheSameUnderAllSchedules) {
  for (const Kernel* kernel : {&tensor_cores_kernel, &hopper_overlap_kernel,
                               &backward_tensor_cores_kernel, &backward_one_pass_kernel}) {
    if (skip_without_device(kernel->limits)) return;
    const OnBlocks few(2);
    StepCase tested{.heads = 1, .seqlen = 270, .head_dim = 192, .mask = "causal"};
    tested.dtype = DType::bf16;
    tested.tile = kernel->tile_for({192, 128}, 227 * 1024);
    tested.head_dim_v = 128;
    tested.sinks = {1};
    expect_same_bits_under_all_schedules(*kernel, tested);
  }
}

// A row whose only partner is the sink: lse is the sink's, out is 0, and the sink gets no gradient.
TEST(Sinks, AreAllThatARowWithoutKeysHas) {
  if (skip_without_device({})) return;
  const StepCase tested{.heads = 2,
                        .seqlen = 8,
                        .head_dim = 16,
                        .mask = "causal",
                        .world_size = 2,
                        .only_step = 1,
                        .sinks = {-7, 40}};
  for (const bool skip_empty : {true, false}) {
    StepCase its = tested;
    its.skip_empty = skip_empty;
    const ForwardRun run = run_forward(online_softmax_kernel, its, inputs_of(its));
    for (Index head = 0; head < 2; ++head)
      for (Index i = 0; i < 4; ++i) {  // of rank 0, whose keys of that step are later ones
        EXPECT_EQ(run.lse[head * 8 + i], tested.sinks[static_cast<std::size_t>(head)]);
        EXPECT_EQ(run.out[(head * 8 + i) * 16], 0.0f);
      }
  }
}

}  // namespace
}  // namespace ringscope::cuda

// The ring in one launch (step 12): attention in f64, and bit for bit what step 07 gives launch by launch,
// whatever the mask, the deal, the ranks and their blocks.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cuda/ring/fused_run.h"
#include "cuda/ring/run_on_gpu.h"
#include "tests/core/attention/blockwise_run.h"
#include "tests/core/base/thrown.h"
#include "tests/cuda/ring_step_harness.h"

#ifdef RINGSCOPE_MODEL
#include "cuda/emulator/simt.h"
#endif

namespace ringscope::cuda {
namespace fused_ring_test {

struct FusedCase {
  AttentionShape shape;
  const char *mask, *partition;
  int world_size, blocks;
  DType dtype = DType::bf16;
  double scale_factor = 1;  // of the default
  std::vector<float> sinks = {};
};

Problem problem_of(const FusedCase& tested) {
  Problem problem{.shape = tested.shape,
                  .dtype = tested.dtype,
                  .softmax_scale = tested.scale_factor * default_scale(tested.shape),
                  .sink_logits = tested.sinks,
                  .mask = MaskSpec::parse(tested.mask),
                  .partition = PartitionSpec::parse(tested.partition),
                  .world_size = tested.world_size};
  problem.deal_out();
  return problem;
}

std::vector<FusedCase> cases() {
  return {
      {{1, 2, 1, 300, 64}, "causal", "zigzag", 3, 1},
      {{1, 2, 2, 520, 128}, "full", "contiguous", 2, 2, DType::f16},
      {{2, 2, 1, 290, 64}, "causal+window:70", "striped", 4, 2, DType::f16, -1},
      {{1, 2, 1, 700, 64}, "documents:300,1,399", "fold", 5, 1},
      {{1, 1, 1, 560, 64}, "prefix:200", "contiguous", 4, 3},
      {{1, 2, 1, 280, 192, 128}, "causal", "zigzag", 2, 1, DType::bf16, 1, {3, -1}},
      {{1, 2, 1, 200, 64, 0, 90, 60}, "causal", "striped", 3, 2},
      {{1, 2, 1, 3, 64}, "full", "contiguous", 5, 1},
      {{1, 1, 1, 150, 128}, "causal", "contiguous", 1, 2},
  };
}

bool skip_without_hopper() {
  testing::Test::RecordProperty("kernel", 12);
  return skip_without_device({.half = true, .hopper = true});
}

Tensors<float> inputs_of(const FusedCase& tested) {
  Tensors<float> in = random_tensors(tested.shape, 92, tested.dtype);
  in.dout.clear();
  return in;
}

// Return out and lse, over memory that was NaN.
template <class Enqueue>
AttentionOutputs outputs_of(FusedRun& run, const Enqueue& enqueue) {
  run.poison();
  enqueue();
  RINGSCOPE_CUDA(cudaDeviceSynchronize());
  return run.outputs();
}

void expect_right(const FusedCase& tested, int schedule) {
  SCOPED_TRACE(std::string(tested.mask) + ", " + tested.partition + ", " +
               std::to_string(tested.world_size) + " ranks of " + std::to_string(tested.blocks) +
               " blocks, order " + std::to_string(schedule));
#ifdef RINGSCOPE_MODEL
  model::set_schedule({static_cast<model::ThreadOrder>(schedule % 3), schedule != 1, 7});
#endif
  const Tensors<float> in = inputs_of(tested);
  const AttentionInputs inputs{in.q, in.k, in.v, {}};
  const Problem problem = problem_of(tested);
  FusedRun run(problem, tested.blocks);
  WholeInputs rows(tested.shape, inputs);
  run.take(rows);

  const AttentionOutputs launched =
      outputs_of(run, [&] { run.launch_steps(hopper_overlap_kernel, nullptr); });
  const std::vector<StepCounters> launched_count = run.counted();
  AttentionOutputs fused = outputs_of(run, [&] { run.launch(nullptr); });
  EXPECT_EQ(bits_of(fused), bits_of(launched));
  const std::vector<StepCounters> count = run.counted();
  ASSERT_EQ(count.size(), launched_count.size());
  for (std::size_t i = 0; i < count.size(); ++i) {
    EXPECT_EQ(count[i].pairs, launched_count[i].pairs) << i;
    EXPECT_EQ(count[i].tiles_full, launched_count[i].tiles_full) << i;
    EXPECT_EQ(count[i].tiles_partial, launched_count[i].tiles_partial) << i;
  }
  NaiveOptions options;
  if (problem.has_sinks()) options.sink_logits = problem.sink_logits.data();
  expect_accurate(fused,
                  naive(tested.shape, problem.mask.for_seqlen(tested.shape.seqlen), problem.scale(),
                        converted<double>(in), options),
                  tested.dtype);
#ifdef RINGSCOPE_MODEL
  model::set_schedule({});
#endif
}

TEST(FusedRing, AgreesWithTheOracleAndWithLaunches) {
  if (skip_without_hopper()) return;
  int schedule = 0;
  for (const FusedCase& tested : cases()) expect_right(tested, schedule++ % 3);
}

// Slots are filled and emptied several times, by one block per rank and by several.
TEST(FusedRing, SameBitsInAnyOrderOfThreads) {
  if (skip_without_hopper()) return;
  for (int schedule = 0; schedule < 3; ++schedule)
    for (const int blocks : {1, 2})
      expect_right({{1, 1, 1, 6 * 140, 64}, "full", "striped", 6, blocks}, schedule);
}

TEST(FusedRing, GivesTheBitsOfTheRingWithALoopOnTheHost) {
  if (skip_without_hopper()) return;
  const FusedCase tested{{1, 2, 1, 300, 64}, "causal", "zigzag", 3, 1};
  const Tensors<float> in = inputs_of(tested);
  const AttentionInputs inputs{in.q, in.k, in.v, {}};
  const Problem problem = problem_of(tested);
  FusedRun run(problem, tested.blocks);
  WholeInputs rows(tested.shape, inputs);
  run.take(rows);
  const auto looped = bits_of(run_on_gpu(problem, inputs, {}, {.kernels = {.forward = 7}}).outputs);
  for (int time = 0; time < 2; ++time) {  // flags are cleared for a second pass
    AttentionOutputs fused = outputs_of(run, [&] { run.launch(nullptr); });
    for (float& x : fused.out) x = round_to(tested.dtype, x);  // as a ring's out is in the end
    EXPECT_TRUE(bits_of(fused) == looped);
  }
}

TEST(FusedRing, RefusesInOneLine) {
  if (skip_without_hopper()) return;
  const FusedCase tested{{1, 2, 1, 300, 64}, "causal", "zigzag", 3, 1};
  const auto expect_refused = [&](const char* why, auto change, int blocks = 1) {
    Problem problem = problem_of(tested);
    change(problem);
    const std::string said = input_error_of([&] { FusedRun(problem, blocks); });
    EXPECT_TRUE(said.starts_with("kernel 12 fused_ring: ")) << said;
    expect_contains(said, why);
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  };
  expect_refused("bf16 and f16, not f32", [](Problem& p) { p.dtype = DType::f32; });
  expect_refused("head_dim", [](Problem& p) { p.shape.head_dim = 80; });
  expect_refused("one ring, not as pass-q", [](Problem& p) { set_scheme(p, "pass-q"); });
  expect_refused("forward pass alone", [](Problem& p) { p.backward = true; });
  expect_refused("caps no scores", [](Problem& p) { p.softcap = 5; });
  expect_refused("up to 16 ranks, not 17", [](Problem& p) { p.world_size = 17; });
  const int most = multiprocessors() / 3;
  expect_refused(("give 1 to " + std::to_string(most)).c_str(), [](Problem&) {}, most + 1);
}

}  // namespace fused_ring_test
}  // namespace ringscope::cuda

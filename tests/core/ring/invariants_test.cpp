// What a run must do besides the right answer: the predicted work, messages and order of events.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <thread>

#include "core/trace/summary.h"
#include "tests/core/ring/ring_case.h"
#include "tests/core/ring/run_invariants.h"
#include "tests/schemes.h"

namespace ringscope {
namespace {

const char* const kMasks[] = {"full", "causal", "causal+window:9", "prefix:20",
                              "causal+documents:31,42"};

// Calls f(config, run) for every partition, world_size, scheme and mask; dtypes take turns.
template <class F>
void for_runs(F&& f) {
  const AttentionShape shape{2, 4, 2, 73, 5};
  int turn = 0;
  for (const char* mask : kMasks) {
    const Tensors<float> in = random_tensors(shape, 61);
    for (const PartitionKind partition : kAllPartitions)
      for (const int n : {1, 2, 3, 8})
        for (const Scheme* scheme : kRunSchemes) {
          const DType dtype = kAllDTypes[turn++ % 3];
          SCOPED_TRACE(testing::Message()
                       << mask << ", " << name_of(partition) << ", world_size " << n << ", "
                       << name_of(scheme) << ", " << name_of(dtype));
          const Problem config{.shape = shape,
                               .dtype = dtype,
                               .softmax_scale = 0.4f,
                               .mask = MaskSpec::parse(mask),
                               .partition = partition,
                               .world_size = n,
                               .scheme = scheme,
                               .backward = true};
          f(config, run_on_threads(config, {in.q, in.k, in.v, in.dout}));
        }
  }
}

TEST(Invariants, EveryRunKeepsTheRules) { for_runs(expect_the_rules); }

TEST(Invariants, RunsAreBitwiseRepeatableAlsoWithMoreThreadsThanCores) {
  const int many = static_cast<int>(3 * std::max(1u, std::thread::hardware_concurrency()));
  for (const DType dtype : kAllDTypes)
    for (const Scheme* scheme : kRunSchemes) {
      const RingReference reference({1, 2, 1, 301, 16}, dtype, "causal", 0.25f, 63);
      const Problem config = reference.config(PartitionKind::zigzag, many, scheme);
      const AttentionOutputs first = run_on_threads(config, reference.inputs).outputs;
      for (int repeat = 0; repeat < 5; ++repeat) {
        const AttentionOutputs again = run_on_threads(config, reference.inputs).outputs;
        EXPECT_EQ(bits_of(again), bits_of(first));
      }
    }
}

TEST(Invariants, AllGatherGivesTheRingsForwardBitForBit) {
  for (const PartitionKind partition : kAllPartitions)
    for (const int n : {2, 5}) {
      const RingReference reference({1, 2, 1, 90, 8}, DType::f32, "causal+window:30", 0.4f, 64);
      const auto outputs = [&](const Scheme* scheme) {
        return run_on_threads(reference.config(partition, n, scheme), reference.inputs).outputs;
      };
      const AttentionOutputs ring = outputs(scheme_named("ring")),
                             gathered = outputs(scheme_named("allgather"));
      EXPECT_EQ(bits_of(ring.out), bits_of(gathered.out));
      EXPECT_EQ(bits_of(ring.lse), bits_of(gathered.lse));
      EXPECT_EQ(bits_of(ring.dq), bits_of(gathered.dq));
      EXPECT_LE(max_abs_error(ring.dk, gathered.dk), 1e-5);
      EXPECT_LE(max_abs_error(ring.dv, gathered.dv), 1e-5);
      reference.check(reference.config(partition, n, scheme_named("allgather")));
    }
}

TEST(Invariants, SoftmaxSamplesEndAtTheFinalLse) {
  const RingReference reference({1, 2, 2, 40, 4}, DType::f32, "causal", 0.5f, 65);
  const RingRun run = run_on_threads(reference.config(PartitionKind::striped, 4), reference.inputs);
  EXPECT_GE(run.recording.samples.size(), 4u);
  expect_samples_end_at_the_final_lse(run, 1e-6, 0);
  // Ranks that attend parts of rows do not know the final value.
  for (const char* const scheme : {"tree", "pass-q", "mesh:2x2"}) {
    Problem job = reference.config(PartitionKind::striped, 4);
    set_scheme(job, scheme);
    for (const SoftmaxSample& sample : run_on_threads(job, reference.inputs).recording.samples)
      EXPECT_EQ(sample.lse_error, -1) << scheme;
  }
}

}  // namespace
}  // namespace ringscope

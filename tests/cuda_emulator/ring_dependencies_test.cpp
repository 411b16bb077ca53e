// Every dependency between streams is stated, and no more than needed. On the host model streams
// run in any order that events allow, another one for each seed, so a missing dependency gives
// wrong numbers under some seed, and a needless one is an order that never shows.
#include <gtest/gtest.h>

#include <set>

#include "tests/core/ring/run_invariants.h"
#include "tests/cuda/one_gpu_ring.h"
#include "tests/cuda_emulator/model_run.h"
#include "tests/schemes.h"

namespace ringscope::cuda {
namespace {

class RingDependencies : public ModelTest {};

const RingReference& problem() {
  static const RingReference reference({1, 1, 1, 33, 4}, DType::f32, "causal", 0.5f, 91);
  return reference;
}

TEST_F(RingDependencies, RightUnderManyOrdersOfStreams) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed)
    for (const Scheme* scheme : kRunSchemes) {
      SCOPED_TRACE(testing::Message() << "stream seed " << seed << ", " << name_of(scheme));
      model::set_stream_seed(seed);
      Problem config =
          problem().config(kAllPartitions[seed % 4], 2 + static_cast<int>(seed % 3), scheme);
      config.kv_buffers = 2 + static_cast<int>(seed / 3 % 3);
      const RingRun done = run(problem(), config);
      problem().check(config, done);
      expect_well_formed_lanes(done);
      expect_blocks_attended_after_they_arrived(done);
    }
}

// Whether any of some seeds gives other numbers than the CPU's ring, by more than rounding. (Few
// without a mistake: RightUnderManyOrdersOfStreams has more.)
bool shows(Mistake mistake, int world_size = 4, int kv_buffers = 2) {
  Problem config = problem().config(PartitionKind::zigzag, world_size);
  config.kv_buffers = kv_buffers;
  const AttentionOutputs expected = run_on_threads(config, problem().inputs).outputs;
  const std::uint64_t seeds = mistake == Mistake::nothing ? 8 : 40;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    model::set_stream_seed(seed);
    DeviceSetup setup = setup_for(config);
    GpuEngine engine(setup, config.world_size, true);
    if (!same_numbers(run_with_mistake(engine, problem(), config, mistake), expected)) return true;
  }
  return false;
}

TEST_F(RingDependencies, OneLeftOutShows) {
  EXPECT_FALSE(shows(Mistake::nothing));
  for (const Mistake mistake :
       {Mistake::attends_before_arrival, Mistake::backward_before_arrival,
        Mistake::adds_before_arrival, Mistake::sends_before_arrival,
        Mistake::receives_before_consumed, Mistake::gradient_sent_before_summed})
    EXPECT_TRUE(shows(mistake)) << "mistake " << static_cast<int>(mistake);
  // Ranks enough that blocks come into used buffers.
  EXPECT_FALSE(shows(Mistake::nothing, 6, 3));
  EXPECT_TRUE(shows(Mistake::sends_before_arrival, 6, 3));
  EXPECT_TRUE(shows(Mistake::receives_before_consumed, 6, 3));
}

// A block is on its way while the one before it is attended: the copy may be over before the kernel
// begins, at every step that has a hop, forward and backward; and a kernel may be over before the
// copy begins.
TEST_F(RingDependencies, CopiesAndKernelsOfAStepComeInAnyOrder) {
  constexpr int n = 3;
  std::set<std::tuple<Pass, int>> copied_first, attended_first;
  for (std::uint64_t seed = 1;
       seed <= 200 && (copied_first.size() < 2 * (n - 1) || attended_first.empty()); ++seed) {
    model::set_stream_seed(seed);
    const RingRun done = run(problem(), problem().config(PartitionKind::zigzag, n));
    for (const auto& events : done.recording.events)
      for (const TraceEvent& hop : events)
        for (const TraceEvent& attended : events) {
          if (hop.lane != Lane::recv || hop.payload != Payload::kv ||
              attended.lane != Lane::compute || hop.pass != attended.pass ||
              hop.step != attended.step)
            continue;
          if (hop.end_ns <= attended.begin_ns) copied_first.emplace(hop.pass, hop.step);
          if (attended.end_ns <= hop.begin_ns) attended_first.emplace(hop.pass, hop.step);
        }
  }
  EXPECT_EQ(copied_first.size(), 2u * (n - 1));
  EXPECT_FALSE(attended_first.empty());
}

}  // namespace
}  // namespace ringscope::cuda

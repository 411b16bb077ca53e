// Every dependency between streams is stated, and no more than needed. On the host model streams
// run in any order that events allow, another one for each seed, so a missing dependency gives
// wrong numbers under some seed, and a needless one is an order that never shows.
#include <gtest/gtest.h>

#include <set>

#include "cuda/model/runtime.h"
#include "tests/core/ring/run_invariants.h"
#include "tests/cuda_model/wrapped_gpu_run.h"

namespace ringscope::cuda {
namespace {

class RingDependencies : public testing::Test {
 protected:
  void SetUp() override { model::reset_device(); }
  void TearDown() override { model::reset_device(); }
};

const RingReference& problem() {
  static const RingReference reference({1, 1, 1, 33, 4}, DType::f32, "causal", 0.5f, 91);
  return reference;
}

TEST_F(RingDependencies, RightUnderManyOrdersOfStreams) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed)
    for (const Scheme scheme : kRunSchemes) {
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

// Which dependency a wrapper leaves out. (finish_backward's own is not among them: by then nothing
// on the device comes after it.)
enum class Dropped {
  nothing,
  attend_arrived,
  attend_backward_arrived,
  add_arrived,
  hop_arrived,
  hop_consumed,
  gradient_hop_summed
};

class CarelessBackend : public ForwardingBackend {
 public:
  CarelessBackend(BlockBackend& inner, Dropped dropped)
      : ForwardingBackend(inner), dropped_(dropped) {}
  Completion attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                    const KvBlock& block, const SoftmaxState& state,
                    const Completion& after) override {
    return ForwardingBackend::attend(step, region, q, block, state,
                                     dropped_ == Dropped::attend_arrived ? nullptr : after);
  }
  Completion attend_backward(const StepInfo& step, const Region& region, const QueryBlock& q,
                             const KvBlock& block, const BackwardState& state,
                             const KvGradient& gradient, const Completion& after) override {
    return ForwardingBackend::attend_backward(
        step, region, q, block, state, gradient,
        dropped_ == Dropped::attend_backward_arrived ? nullptr : after);
  }
  Completion add(const StepInfo& step, const KvGradient& into, const KvGradient& from,
                 const Completion& after) override {
    return ForwardingBackend::add(step, into, from,
                                  dropped_ == Dropped::add_arrived ? nullptr : after);
  }

 private:
  Dropped dropped_;
};

class CarelessCommunicator : public ForwardingCommunicator {
 public:
  CarelessCommunicator(Communicator& inner, Dropped dropped)
      : ForwardingCommunicator(inner), dropped_(dropped) {}
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override {
    // A block's hop comes after {arrived, consumed}, a gradient's after {summed}.
    if (hop.payload == Payload::dkv && dropped_ == Dropped::gradient_hop_summed)
      return ForwardingCommunicator::exchange(hop, {});
    if (hop.payload == Payload::kv && after.size() == 2) {
      if (dropped_ == Dropped::hop_arrived)
        return ForwardingCommunicator::exchange(hop, {after.begin()[1]});
      if (dropped_ == Dropped::hop_consumed)
        return ForwardingCommunicator::exchange(hop, {after.begin()[0]});
    }
    return ForwardingCommunicator::exchange(hop, after);
  }

 private:
  Dropped dropped_;
};

// Whether any of some seeds gives other numbers than the CPU's ring, by more than rounding.
bool shows(Dropped dropped, int world_size = 4, int kv_buffers = 2) {
  Problem config = problem().config(PartitionKind::zigzag, world_size);
  config.kv_buffers = kv_buffers;
  const AttentionOutputs expected = run_on_threads(config, problem().inputs).outputs;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    model::set_stream_seed(seed);
    const AttentionOutputs outputs =
        run_wrapped_on_gpu(
            problem(), config,
            [&](int, Communicator& inner) { return CarelessCommunicator(inner, dropped); },
            [&](int, BlockBackend& inner) { return CarelessBackend(inner, dropped); })
            .outputs;
    const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
      return max_abs_error(a, b) <= 1e-4;
    };
    if (!(same(outputs.out, expected.out) && same(outputs.dq, expected.dq) &&
          same(outputs.dk, expected.dk) && same(outputs.dv, expected.dv)))
      return true;
  }
  return false;
}

TEST_F(RingDependencies, OneLeftOutShows) {
  EXPECT_FALSE(shows(Dropped::nothing));
  EXPECT_TRUE(shows(Dropped::attend_arrived));
  EXPECT_TRUE(shows(Dropped::attend_backward_arrived));
  EXPECT_TRUE(shows(Dropped::add_arrived));
  EXPECT_TRUE(shows(Dropped::hop_arrived));
  EXPECT_TRUE(shows(Dropped::hop_consumed));
  EXPECT_TRUE(shows(Dropped::gradient_hop_summed));
  // Ranks enough that blocks come into used buffers.
  EXPECT_FALSE(shows(Dropped::nothing, 6, 3));
  EXPECT_TRUE(shows(Dropped::hop_arrived, 6, 3));
  EXPECT_TRUE(shows(Dropped::hop_consumed, 6, 3));
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

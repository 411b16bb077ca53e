// A run on threads is watched: work keeps it alive however long it takes, a standstill ends it, and
// who is still at work when it fails leaves that.
#include "core/ring/watcher.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <thread>

#include "core/ring/rank.h"
#include "core/ring/run.h"
#include "core/ring/thread_engine.h"
#include "tests/ring/ring_harness.h"

namespace ringscope {
namespace watcher_test {

using std::chrono::milliseconds;

// What a rank does before it attends a block.
using Before = std::function<void(int rank, const StepInfo& step, RankPulse& pulse)>;

class DisturbedBackend : public ForwardingBackend {
 public:
  DisturbedBackend(BlockBackend& inner, Rank& rank, const Before& before)
      : ForwardingBackend(inner), rank_(rank), before_(before) {}
  Completion attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                    const KvBlock& block, const SoftmaxState& state,
                    const Completion& after) override {
    rank_.pulse().at(step.pass, step.step);
    before_(rank_.rank(), step, rank_.pulse());
    return ForwardingBackend::attend(step, region, q, block, state, after);
  }

 private:
  Rank& rank_;
  const Before& before_;
};

class DisturbedRank : public RankEngine {
 public:
  DisturbedRank(std::unique_ptr<RankEngine> inner, Rank& rank, const Before& before)
      : inner_(std::move(inner)), backend_(inner_->backend(), rank, before) {}
  Communicator& communicator() override { return inner_->communicator(); }
  BlockBackend& backend() override { return backend_; }
  void finish() override { inner_->finish(); }
  void finish_failed() override { inner_->finish_failed(); }
  Index scratch_bytes() const override { return inner_->scratch_bytes(); }

 private:
  std::unique_ptr<RankEngine> inner_;
  DisturbedBackend backend_;
};

class DisturbedEngine : public ThreadEngine {
 public:
  DisturbedEngine(int world_size, Before before)
      : ThreadEngine(world_size), before_(std::move(before)) {}
  std::unique_ptr<RankEngine> make(Rank& rank, const Listener& listener) override {
    return std::make_unique<DisturbedRank>(ThreadEngine::make(rank, listener), rank, before_);
  }

 private:
  Before before_;
};

const RingReference& problem() {
  static const RingReference reference({1, 2, 1, 21, 4}, DType::f32, "causal", 0.5f, 47);
  return reference;
}

RingConfig config_with(double timeout_s) {
  RingConfig config = problem().config(PartitionKind::zigzag, 3);
  config.timeout_s = timeout_s;
  return config;
}

// Throws as run_ranks does; fails when that took longer than 2 s more than the timeout.
RingRun run_disturbed(const RingConfig& config, const Before& before) {
  DisturbedEngine engine(config.world_size, before);
  return run_ranks(config, problem().inputs, engine);
}
RunFailure failure_of(const RingConfig& config, const Before& before) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    run_disturbed(config, before);
  } catch (const RunFailure& failure) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_LE(took.count(), config.timeout_s + 2);
    return failure;
  }
  ADD_FAILURE() << "the run ended well";
  return RunFailure(RunError("none"), {});
}

// The timeouts of these tests are long enough for a rank that gets no turn on a busy machine.
TEST(Watcher, LongWorkIsNoStandstill) {
  const RingConfig config = config_with(0.6);
  const RingRun run = run_disturbed(config, [](int rank, const StepInfo& step, RankPulse& pulse) {
    if (rank != 1 || step.step != 1 || step.pass != Pass::forward) return;
    for (int i = 0; i < 250; ++i) {
      std::this_thread::sleep_for(milliseconds(5));
      pulse.tick();
    }
  });
  problem().check(config, run);
}

TEST(Watcher, AStandstillEndsTheRunAndIsNamed) {
  problem();
  std::vector<std::future<RunFailure>> failures;
  for (int stuck = 0; stuck < 3; ++stuck)
    for (int at = 0; at < 3; ++at)
      failures.push_back(std::async(std::launch::async, [stuck, at] {
        return failure_of(config_with(1), [&](int rank, const StepInfo& step, RankPulse& pulse) {
          while (rank == stuck && step.step == at && !pulse.is_stopped())
            std::this_thread::sleep_for(milliseconds(1));
          if (pulse.is_stopped()) pulse.tick();
        });
      }));
  for (int i = 0; i < 9; ++i) {
    SCOPED_TRACE(testing::Message() << "rank " << i / 3 << ", step " << i % 3);
    const RunFailure failure = failures[static_cast<std::size_t>(i)].get();
    EXPECT_EQ(failure.rank(), i / 3);
    EXPECT_EQ(failure.step(), i % 3);
    EXPECT_NE(std::string(failure.what()).find("no progress for 1 s"), std::string::npos)
        << failure.what();
    ASSERT_TRUE(failure.recording().info.failure.has_value());
    EXPECT_EQ(failure.recording().info.failure->rank, i / 3);
  }
}

// The failure of one rank reaches those that wait for nothing.
TEST(Watcher, WhoIsAtWorkWhenTheRunFailsLeavesIt) {
  const RunFailure failure =
      failure_of(config_with(1), [](int rank, const StepInfo&, RankPulse& pulse) {
        if (rank == 1) throw RunError("the device is gone");
        for (int i = 0; i < 8'000; ++i) {
          std::this_thread::sleep_for(milliseconds(1));
          pulse.tick();
        }
      });
  EXPECT_EQ(failure.rank(), 1);
  EXPECT_EQ(failure.step(), 0);
  EXPECT_STREQ(failure.what(), "the device is gone");
}

// Not by the test's own backend: the tile loops of the CPU themselves tick, and can be stopped.
TEST(Watcher, TilesTickAndStop) {
  const Index rows = 200, d = 8;
  const RingProblem problem{{1, 2, 1, d, DType::f32, 1.0},
                            Mask{.seqlen = rows, .causal = false},
                            {PartitionKind::contiguous, rows, 1}};
  RankMemory mine(problem, 0, Scheme::ring, true, 2);
  std::fill(mine.q.begin(), mine.q.end(), std::byte{0});
  std::fill(mine.dout.begin(), mine.dout.end(), std::byte{0});
  std::fill_n(mine.own_kv(), problem.kv_bytes(0), std::byte{0});
  RankPulse pulse;
  CpuBackend cpu(problem.params, true, nullptr, &pulse);
  ThreadRing ring(1);
  ThreadCommunicator comm(ring, 0);
  ring_forward(comm, cpu, problem, mine);
  const auto tiles = static_cast<std::uint64_t>(cpu.last_stats().tiles_full);
  EXPECT_EQ(tiles, 2u * (rows + kTileRows - 1) / kTileRows * ((rows + kTileKeys - 1) / kTileKeys));
  const std::uint64_t forward = pulse.progress();
  EXPECT_GE(forward, tiles);
  ring_backward(comm, cpu, problem, mine);
  EXPECT_GE(pulse.progress() - forward, tiles);
  pulse.stop();
  const std::uint64_t before = pulse.progress();
  EXPECT_THROW(ring_forward(comm, cpu, problem, mine), RunError);
  EXPECT_THROW(ring_backward(comm, cpu, problem, mine), RunError);
  EXPECT_LE(pulse.progress() - before, 2u);
}

}  // namespace watcher_test
}  // namespace ringscope

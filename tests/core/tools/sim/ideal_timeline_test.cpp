// A ring as it would run with a core for every rank: by hand where every moment is known, and of real
// runs what stays of them. (The order of tasks: graph_test.cpp.)
#include "core/tools/sim/recording.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/threads/run.h"
#include "core/trace/summary.h"
#include "tests/core/ring/ring_case.h"

namespace ringscope {
namespace {

const TraceEvent& event(const Recording& recording, int rank, Lane lane, int step,
                        Pass pass = Pass::forward, Payload payload = Payload::kv) {
  for (const TraceEvent& e : recording.events[static_cast<std::size_t>(rank)])
    if (e.lane == lane && e.step == step && e.pass == pass && e.payload == payload) return e;
  throw std::logic_error("no such event");
}

int waits(const Recording& recording, int rank) {
  const auto& events = recording.events[static_cast<std::size_t>(rank)];
  return static_cast<int>(std::count_if(events.begin(), events.end(),
                                        [](const TraceEvent& e) { return e.lane == Lane::wait; }));
}

// Two ranks that took turns on one core. Rank 0 needs 10 ns for its first block and 2 for the
// second, rank 1 needs 4 and 2; blocks take 7.
Recording turns() {
  Recording recording;
  recording.info.world_size = 2;
  recording.events.resize(2);
  const auto add = [&](int rank, Lane lane, int step, std::int64_t begin, std::int64_t end) {
    TraceEvent& e = recording.events[static_cast<std::size_t>(rank)].emplace_back();
    e.lane = lane;
    e.step = step;
    e.begin_ns = begin;
    e.end_ns = end;
    return &e;
  };
  add(0, Lane::compute, 0, 0, 10)->flops = 1000;
  add(1, Lane::compute, 0, 10, 90)->flops = 400;
  for (const int rank : {0, 1}) {
    add(rank, Lane::send, 0, 95, 102)->bytes = 18;
    add(rank, Lane::recv, 0, 95, 102)->bytes = 18;
    add(rank, Lane::wait, 1, 90, 102);
    add(rank, Lane::compute, 1, 102, 200)->flops = 200;
  }
  recording.samples.push_back({.rank = 1, .step = 1, .at_ns = 200});
  return recording;
}

TEST(OwnCores, ByHand) {
  const Recording recording = ideal_timeline(turns());
  for (const int rank : {0, 1}) {
    EXPECT_EQ(event(recording, rank, Lane::compute, 0).begin_ns, 0);
    EXPECT_EQ(event(recording, rank, Lane::send, 0).begin_ns, 0);
    EXPECT_EQ(event(recording, rank, Lane::recv, 0).end_ns, 7);
  }
  EXPECT_EQ(event(recording, 0, Lane::compute, 0).end_ns, 10);
  EXPECT_EQ(event(recording, 0, Lane::compute, 1).begin_ns, 10);
  EXPECT_EQ(event(recording, 0, Lane::compute, 1).end_ns, 12);
  EXPECT_EQ(waits(recording, 0), 0);
  // Rank 1 is done with its own block before the other one has come.
  EXPECT_EQ(event(recording, 1, Lane::compute, 0).end_ns, 4);
  ASSERT_EQ(waits(recording, 1), 1);
  const TraceEvent& wait = event(recording, 1, Lane::wait, 1);
  EXPECT_EQ(wait.begin_ns, 4);
  EXPECT_EQ(wait.end_ns, 7);
  EXPECT_EQ(wait.waiting_for, 0);
  EXPECT_EQ(wait.kv_owner, 0);
  EXPECT_EQ(event(recording, 1, Lane::compute, 1).begin_ns, 7);
  EXPECT_EQ(recording.samples[0].at_ns, 9);
}

TEST(OwnCores, KeepWorkMessagesAndBalance) {
  for (const int world_size : {1, 2, 3, 5})
    for (const char* mask : {"full", "causal"}) {
      SCOPED_TRACE(testing::Message() << world_size << " ranks, " << mask);
      Problem config;
      config.shape = {.batch = 1, .num_heads = 2, .num_heads_kv = 1, .seqlen = 90, .head_dim = 8};
      config.mask = MaskSpec::parse(mask);
      config.world_size = world_size;
      config.backward = true;
      const Tensors<float> in = random_tensors(config.shape, 7);
      const Recording real = run_on_threads(config, {in.q, in.k, in.v, in.dout}).recording;
      const Recording own = ideal_timeline(real);
      const RunSummary before = summarize(real), after = summarize(own);
      EXPECT_EQ(before.balance_ceiling, after.balance_ceiling);
      for (int rank = 0; rank < world_size; ++rank) {
        SCOPED_TRACE(testing::Message() << "rank " << rank);
        const auto r = static_cast<std::size_t>(rank);
        EXPECT_EQ(before.ranks[r].bytes_sent, after.ranks[r].bytes_sent);
        EXPECT_EQ(before.ranks[r].hops, after.ranks[r].hops);
        double flops = 0;
        for (const TraceEvent& e : own.events[r]) flops += static_cast<double>(e.flops);
        EXPECT_NEAR(1e9 * after.ranks[r].compute_s, flops / kIdealFlopsPerNs, 2 * world_size);
      }
    }
}

TEST(OwnCores, RefusesWhatIsNoWholeRing) {
  Recording recording = turns();
  recording.info.scheme = "allgather";
  EXPECT_THROW(ideal_timeline(recording), std::invalid_argument);
  recording = turns();
  recording.info.failure = RunEnd{"lost", 1, 0};
  EXPECT_THROW(ideal_timeline(recording), std::invalid_argument);
  recording = turns();
  std::erase_if(recording.events[1], [](const TraceEvent& e) { return e.lane == Lane::recv; });
  EXPECT_THROW(ideal_timeline(recording), std::invalid_argument);
  EXPECT_THROW(ideal_timeline(Recording()), std::invalid_argument);
}

}  // namespace
}  // namespace ringscope

// A training step's attention can be recorded like any run: the same decorators, put around the two
// seams for one step and taken off again.
#include <gtest/gtest.h>

#include <map>

#include "core/run/recording.h"
#include "tests/core/model/model_case.h"

namespace ringscope {
namespace {

// Two layers have each pass twice, but every message has a number of its own, the same on both sides.
TEST(RecordedStep, EveryMessageOfSeveralLayersHasANumberOfItsOwn) {
  constexpr int n = 3;
  const ModelCase a_case = ModelCase::small();
  ASSERT_EQ(a_case.shape.layers, 2);
  const std::vector<std::uint8_t> windows = a_case.windows();
  std::vector<std::map<std::int64_t, TraceEvent>> sent(n), received(n);
  run_replicas(a_case, PartitionKind::zigzag, n, [&](TestReplica& rank) {
    ContextRing& ring = rank.replica.ring();
    const int r = rank.replica.rank();
    Recorder recorder(200, 0, monotonic_ns());
    RecordingCommunicator comm(ring.own_communicator(), recorder, 100);
    ring.run_over(comm, ring.own_backend());
    for (int time = 0; time < 2; ++time) {
      rank.replica.loss_and_gradients(windows.data());
      comm.flush();
    }
    ring.run_over_own();
    for (const TraceEvent& event : recorder.events()) {
      auto& ends = event.lane == Lane::send ? sent : received;
      EXPECT_TRUE(ends[r].emplace(event.flow, event).second) << "flow " << event.flow << " twice";
    }
  });
  for (int r = 0; r < n; ++r) {
    EXPECT_EQ(sent[r].size(), 2u * 2 * ((n - 1) + (n - 1) + n));
    for (const auto& [flow, send] : sent[r]) {
      const TraceEvent& recv = received[(r + 1) % n].at(flow);
      EXPECT_EQ(recv.src, r);
      EXPECT_EQ(recv.bytes, send.bytes);
      EXPECT_EQ(recv.kv_owner, send.kv_owner);
      for (int other = 0; other < n; ++other) EXPECT_EQ(sent[other].contains(flow), other == r);
    }
  }
}

}  // namespace
}  // namespace ringscope

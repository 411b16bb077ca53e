// What a two-level ring records: messages that carry every block to every rank in time, and every
// share of a gradient home.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "core/tools/cost/amounts.h"
#include "tests/core/tools/sim/two_level_cases.h"

namespace ringscope {
namespace two_level_events_test {

// Along the recorded messages: blocks are there when they are attended, and every gradient has
// collected every rank's share when it is home.
TEST(TwoLevelEvents, BlocksComeInTimeAndGradientsCollectAllShares) {
  RandomCases cases(23);
  for (int trial = 0; trial < 40; ++trial) {
    RandomCase made = random_two_level(cases);
    made.job.backward = true;
    const int n = made.job.world_size;
    if (n > 24) continue;
    SCOPED_TRACE(made.text());
    std::vector<std::pair<int, TraceEvent>> moves;                       // by when they are over
    std::map<std::pair<int, int>, std::int64_t> there, begun, attended;  // of (rank, owner)
    const Recorded run = recorded(made);
    for (int rank = 0; rank < n; ++rank)
      for (const TraceEvent& event : run.events[static_cast<std::size_t>(rank)]) {
        if (event.pass != Pass::backward) continue;
        if (event.lane == Lane::send && event.payload == Payload::dkv)
          moves.emplace_back(rank, event);
        if (event.lane == Lane::compute) {
          begun[{rank, event.kv_owner}] = event.begin_ns;
          attended[{rank, event.kv_owner}] = event.end_ns;
        }
        if (event.lane == Lane::recv && event.payload == Payload::kv)
          there[{rank, event.kv_owner}] = event.end_ns;
      }
    std::stable_sort(moves.begin(), moves.end(), [](const auto& a, const auto& b) {
      return std::pair(a.second.end_ns, a.second.step) < std::pair(b.second.end_ns, b.second.step);
    });
    std::map<std::pair<int, int>, std::set<int>> shares;  // of (holder, owner)
    for (int rank = 0; rank < n; ++rank)
      for (int owner = 0; owner < n; ++owner) {
        shares[{rank, owner}] = {rank};
        EXPECT_EQ(there.contains({rank, owner}), rank != owner);
        if (rank != owner) {
          EXPECT_GE(begun.at({rank, owner}), there.at({rank, owner}));
        }
      }
    for (const auto& [rank, event] : moves) {
      EXPECT_GE(event.begin_ns, attended.at({rank, event.kv_owner}));
      std::set<int>& from = shares[{rank, event.kv_owner}];
      std::set<int>& to = shares[{event.dst, event.kv_owner}];
      for (const int share : from) EXPECT_TRUE(to.insert(share).second);
      from.clear();
    }
    for (int rank = 0; rank < n; ++rank)
      EXPECT_EQ(static_cast<int>(shares.at({rank, rank}).size()), n) << rank;
  }
}

// Hops inside nodes, which are shown as they are.
TEST(TwoLevelEvents, NoBlockComesIntoABufferThatIsInUse) {
  RandomCases cases(27);
  for (int trial = 0; trial < 200; ++trial) {
    RandomCase made = random_two_level(cases);
    made.pace = Pace::buffers;
    made.job.backward = false;
    made.job.kv_buffers = 2 + trial % 3;
    const int n = made.job.world_size, places = n / made.job.nodes;
    if (n > 24) continue;
    SCOPED_TRACE(made.text());
    const Recorded run = recorded(made);
    for (const std::vector<TraceEvent>& events : run.events) {
      std::map<int, std::int64_t> attended, sent, came;  // by step
      for (const TraceEvent& event : events) {
        const bool is_here = event.src / places == event.dst / places;
        if (event.lane == Lane::compute) attended[event.step] = event.end_ns;
        if (event.lane == Lane::send && is_here) sent[event.step] = event.end_ns;
        if (event.lane == Lane::recv && is_here) came[event.step + 1] = event.begin_ns;
      }
      for (const auto& [step, begin] : came) {
        const int before = step - made.job.kv_buffers;
        if (before < 0) continue;
        EXPECT_GE(begin, attended.at(before));
        if (sent.contains(before)) {
          EXPECT_GE(begin, sent.at(before));
        }
      }
    }
  }
}

// A hop inside a node takes a second, one between nodes half of one, a step a tenth. With two
// buffers the third block from the node before comes into the first one's, which takes a second to
// be sent on; with three, at once.
TEST(TwoLevelEvents, ABlockWaitsForTheOneInItsBufferToLeave) {
  RandomCase made;
  made.pace = Pace::buffers;
  made.job = two_level_job(4, 2, "full", PartitionKind::contiguous, false);
  made.job.shape.seqlen = 8 * 25;
  const double block = kv_hop_bytes(made.job);
  const double flops = 4 * query_values(made.job.shape, 1) * 25 * 25;
  made.machine = two_level_machine(made.job, {flops / 0.1, 1, block, 0}, {"", 2 * block, 0});
  for (const int buffers : {2, 3}) {
    made.job.kv_buffers = buffers;
    for (const std::vector<TraceEvent>& events : recorded(made).events)
      for (const TraceEvent& event : events) {
        const bool is_between = event.lane == Lane::send && std::abs(event.src - event.dst) != 1;
        if (!is_between || event.step != 2) continue;
        // From 1 s to 1.5 s, shown until the next hop inside the node at 1.1 s; or from 0.5 s to
        // 1 s, beside the first one.
        EXPECT_NEAR(static_cast<double>(event.end_ns), buffers == 2 ? 1.1e9 : 1e9, 1e3);
      }
  }
}

}  // namespace two_level_events_test
}  // namespace ringscope

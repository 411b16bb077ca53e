// A simulated run's events: a recording made of them says what the simulation says, and reads like
// that of a real run.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/run/run.h"
#include "core/trace/summary.h"
#include "tests/core/attention/random_problem.h"
#include "tests/core/tools/sim/random_machines.h"

namespace ringscope {
namespace {

// Return a recording of all that a summary asks for.
Recording recording_of(const RandomCase& made, std::vector<std::vector<TraceEvent>> events) {
  Recording recording;
  recording.info.scheme = name_of(made.job.scheme);
  recording.info.world_size = made.job.world_size;
  recording.events = std::move(events);
  return recording;
}

// Every tenth case deals out heads.
template <class F>
void for_cases(unsigned seed, int count, F&& f) {
  RandomCases cases(seed);
  for (int i = 0; i < count; ++i) {
    RandomCase made = cases.next();
    if (made.job.world_size > 40) continue;
    if (i % 10 == 0) {
      made.job.scheme = Scheme::ulysses;
      made.job.mask = {};  // whole pairs a rank
      made.job.shape.num_heads_kv = 4;
      made.job.world_size = made.machine.world_size = 1 << i / 10 % 3;
      made.pace = Pace::in_step;
      made.machine.speed.clear();
      for (auto* paths :
           {&made.machine.to_next, &made.machine.to_next_here, &made.machine.to_next_node})
        paths->clear();
    }
    SCOPED_TRACE("seed " + std::to_string(seed) + ", case " + std::to_string(i) + ": " +
                 made.text());
    f(made);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Events, AddUpToTheSimulation) {
  for_cases(11, 300, [](const RandomCase& made) {
    // Messages of two ways at once are not shown in full.
    if (made.job.scheme == Scheme::two_level) return;
    const auto [simulation, events] = recorded(made);
    const Recording recording = recording_of(made, events);
    const RunSummary summary = summarize(recording);
    const double n = made.job.world_size;
    const double rounding = 1e-9 * (8 * n + 8);  // half a nanosecond for each end of a slice
    for (std::size_t r = 0; r < summary.ranks.size(); ++r) {
      const RankSummary& seen = summary.ranks[r];
      const SimulatedRank& rank = simulation.ranks[r];
      EXPECT_EQ(static_cast<double>(seen.pairs), rank.pairs);
      EXPECT_EQ(static_cast<double>(seen.bytes_sent), rank.bytes_sent);
      EXPECT_EQ(seen.hops, rank.hops);
      EXPECT_NEAR(seen.compute_s, rank.compute_s, rounding);
      EXPECT_NEAR(seen.wait_s, rank.wait_s, rounding);
      EXPECT_NEAR(seen.exposed_s, rank.exposed_s, rounding);
      std::int64_t last = 0;
      for (const TraceEvent& event : recording.events[r]) last = std::max(last, event.end_ns);
      EXPECT_NEAR(static_cast<double>(last) * 1e-9, rank.end_s, 1e-9);
    }
    EXPECT_NEAR(summary.imbalance, simulation.imbalance(), 1e-12);
    EXPECT_NEAR(summary.balance_ceiling, simulation.balance_ceiling(), 1e-12);
    EXPECT_NEAR(summary.exposed_s, simulation.exposed_s(), rounding);
  });
}

TEST(Events, OfALaneDoNotOverlap) {
  for_cases(12, 300, [](const RandomCase& made) {
    for (const auto& events : recorded(made).events) {
      std::map<Lane, std::int64_t> end;
      for (const TraceEvent& event : events) {
        EXPECT_LE(end[event.lane], event.begin_ns);
        EXPECT_LE(event.begin_ns, event.end_ns);
        end[event.lane] = event.end_ns;
      }
    }
  });
}

// A rank does one thing at a time: it computes or it waits.
TEST(Events, WaitsLieBetweenComputations) {
  for_cases(13, 200, [](const RandomCase& made) {
    for (const auto& events : recorded(made).events) {
      std::int64_t end = 0;
      for (const TraceEvent& event : events) {
        if (event.lane != Lane::compute && event.lane != Lane::wait) continue;
        EXPECT_LE(end, event.begin_ns + 1);
        end = event.end_ns;
      }
    }
  });
}

TEST(Events, EveryMessageIsSentAndReceivedOnce) {
  for_cases(14, 200, [](const RandomCase& made) {
    std::map<std::int64_t, TraceEvent> sent, received;
    const Recorded run = recorded(made);
    for (int rank = 0; rank < made.job.world_size; ++rank)
      for (const TraceEvent& event : run.events[static_cast<std::size_t>(rank)]) {
        if (event.lane == Lane::send) {
          EXPECT_EQ(event.src, rank);
          EXPECT_TRUE(sent.emplace(event.flow, event).second);
        } else if (event.lane == Lane::recv) {
          EXPECT_EQ(event.dst, rank);
          EXPECT_TRUE(received.emplace(event.flow, event).second);
        }
      }
    EXPECT_EQ(sent.size(), received.size());
    EXPECT_EQ(sent.count(0), 0u);
    for (auto [flow, event] : sent) {
      ASSERT_TRUE(received.count(flow));
      event.lane = Lane::recv;
      // A slice is only as long as its lane is free, also of what rounding leaves.
      event.moved_ns = received[flow].moved_ns;
      event.begin_ns = received[flow].begin_ns;
      event.end_ns = received[flow].end_ns;
      EXPECT_EQ(event, received[flow]);
    }
  });
}

TEST(Events, OfSomeRanksAreTheSameAsOfAll) {
  for_cases(15, 100, [](const RandomCase& made) {
    Recorded all = recorded(made);
    std::vector<bool> some(all.events.size());
    for (std::size_t r = 0; r < some.size(); ++r) some[r] = r % 3 == 1;
    Recorded of_some = recorded(made, some);
    // A flow needs both of its slices.
    for (Recorded* run : {&all, &of_some})
      for (auto& events : run->events)
        for (TraceEvent& event : events) event.flow = 0;
    for (std::size_t r = 0; r < some.size(); ++r) {
      if (some[r]) {
        EXPECT_EQ(of_some.events[r], all.events[r]);
      } else {
        EXPECT_TRUE(of_some.events[r].empty());
      }
    }
    EXPECT_EQ(of_some.simulation.wall_s(), all.simulation.wall_s());
  });
}

// What slices are about: everything but times, processors, tiles, waits and the numbers of flows.
using About = std::tuple<Lane, Pass, Payload, std::int32_t, std::int32_t, std::int64_t,
                         std::int64_t, std::int64_t, std::int32_t, std::int32_t>;
std::multiset<About> about(const std::vector<TraceEvent>& events) {
  std::multiset<About> all;
  for (const TraceEvent& e : events)
    if (e.lane != Lane::wait)
      all.emplace(e.lane, e.pass, e.payload, e.step, e.kv_owner, e.pairs, e.flops, e.bytes, e.src,
                  e.dst);
  return all;
}

// Every flow is a number of its own, and joins the two sides of one message.
void expect_flows_join_messages(const std::vector<std::vector<TraceEvent>>& events) {
  using Message = std::tuple<Pass, Payload, std::int32_t, std::int32_t, std::int64_t>;
  std::map<std::int64_t, std::vector<Message>> sent, received;
  for (const std::vector<TraceEvent>& of_rank : events)
    for (const TraceEvent& e : of_rank)
      if (e.lane == Lane::send || e.lane == Lane::recv)
        (e.lane == Lane::send ? sent : received)[e.flow].emplace_back(e.pass, e.payload, e.step,
                                                                      e.src, e.bytes);
  EXPECT_EQ(sent, received);
  EXPECT_FALSE(sent.contains(0));
  for (const auto& [flow, messages] : sent) EXPECT_EQ(messages.size(), 1) << "flow " << flow;
}

TEST(Events, AreThoseOfARealRun) {
  const AttentionShape shape{2, 4, 2, 61, 5};
  const Tensors<float> in = random_tensors(shape, 3);
  for (const Scheme scheme : kRunSchemes)
    for (const PartitionKind partition : kAllPartitions)
      for (const int world_size : {1, 2, 5}) {
        SCOPED_TRACE(testing::Message() << name_of(scheme) << ", " << name_of(partition) << ", "
                                        << world_size << " ranks");
        Problem config;
        config.shape = shape;
        config.mask = MaskSpec::parse("causal+window:30");
        config.partition = partition;
        config.world_size = world_size;
        config.scheme = scheme;
        config.backward = true;
        const RingRun run = run_on_threads(config, {in.q, in.k, in.v, in.dout});
        expect_flows_join_messages(run.recording.events);

        RandomCase made;
        made.job = {.shape = shape,
                    .mask = config.mask,
                    .partition = partition,
                    .world_size = world_size,
                    .scheme = scheme == Scheme::ring ? Scheme::ring : Scheme::allgather,
                    .backward = true};
        made.machine.world_size = world_size;
        made.machine.rates = {1e9, 1e9, 1e7, 1e-6};
        for (const Pace pace : {Pace::in_step, Pace::buffers}) {
          made.pace = pace;
          const Recorded simulated = recorded(made);
          expect_flows_join_messages(simulated.events);
          for (std::size_t r = 0; r < run.recording.events.size(); ++r)
            EXPECT_EQ(about(simulated.events[r]), about(run.recording.events[r]));
          EXPECT_EQ(simulated.simulation.balance_ceiling(),
                    summarize(run.recording).balance_ceiling);
        }
      }
}

}  // namespace
}  // namespace ringscope

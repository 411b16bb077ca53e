// Simulations as recordings: whose events they hold, and that what they hold is what was simulated.
#include "core/tools/sim/recording.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <sstream>
#include <tuple>

#include "core/tools/sim/scenario.h"
#include "core/trace/chrome_trace.h"

namespace ringscope {
namespace {

Scenario scenario_of(int world_size, const Scheme* scheme, Pace pace, bool backward) {
  Scenario scenario;
  Problem& job = scenario.job;
  job.shape = {2, 4, 4, 16 * world_size + 3, 8};
  job.mask = MaskSpec::parse("causal");
  job.partition = PartitionKind::zigzag;
  job.world_size = world_size;
  job.scheme = scheme;
  job.backward = backward;
  scenario.pace = pace;
  scenario.rates = {1e9, 8e8, 2e7, 1e-6};
  scenario.jitter = 0.2;
  return scenario;
}

int ranks_with_events(const Recording& recording) {
  return static_cast<int>(std::count_if(recording.events.begin(), recording.events.end(),
                                        [](const auto& events) { return !events.empty(); }));
}

TEST(SimRecording, SaysWhatWasSimulated) {
  const Recording recording =
      record(scenario_of(3, scheme_named("ring"), Pace::buffers, false)).recording;
  const RunInfo& info = recording.info;
  EXPECT_EQ(std::tuple(info.backend, info.partition, info.mask, info.world_size, info.base_time_ns),
            std::tuple("sim", "zigzag", "causal", 3, 0));
  EXPECT_EQ(recording.dropped, std::vector<std::int64_t>(3, 0));
}

TEST(SimRecording, OfManyRanksHoldsTheCriticalPathAndASample) {
  Scenario scenario = scenario_of(256, scheme_named("ring"), Pace::buffers, false);
  const auto [simulation, recording] = record(scenario);
  const int kept = ranks_with_events(recording);
  EXPECT_EQ(kept, ranks_to_record(scenario.job, {}));
  EXPECT_LE(kept, kMostRanksByItself);
  // The rank on which the run ends is on the path, and always there.
  const auto last = std::max_element(
      simulation.ranks.begin(), simulation.ranks.end(),
      [](const SimulatedRank& a, const SimulatedRank& b) { return a.end_s < b.end_s; });
  EXPECT_FALSE(recording.events[static_cast<std::size_t>(last - simulation.ranks.begin())].empty());
  std::size_t events = 0;
  std::map<std::int64_t, int> ends;  // of flows: readers refuse one that lacks an end
  for (const auto& of_rank : recording.events) {
    events += of_rank.size();
    for (const TraceEvent& event : of_rank)
      if (event.flow != 0) ++ends[event.flow];
    EXPECT_LE(static_cast<double>(of_rank.size()), events_of_rank(scenario.job));
  }
  EXPECT_LE(events, static_cast<std::size_t>(kMostRecordedEvents));
  EXPECT_FALSE(ends.empty());
  for (const auto& [flow, count] : ends) EXPECT_EQ(count, 2) << flow;
  std::ostringstream text;
  write_chrome_trace(text, recording);
  EXPECT_EQ(parse_chrome_trace(text.str()), recording);
}

TEST(SimRecording, HoldsAsManyAsAskedFor) {
  const Scenario scenario = scenario_of(12, scheme_named("ring"), Pace::in_step, false);
  for (const int asked : {1, 2, 5, 11, 12, 100})
    EXPECT_EQ(ranks_with_events(record(scenario, asked).recording), std::min(asked, 12));
  Problem job;
  job.world_size = 10000;
  EXPECT_GE(ranks_to_record(job, {}), 2);
  job.world_size = 64;
  EXPECT_EQ(ranks_to_record(job, {}), 64);
}

// Readers take nodes for equal shares of consecutive ranks.
TEST(SimRecording, NamesNodesThatAreEqualShares) {
  for (const int ranks : {8, 7}) {
    Scenario scenario = scenario_of(ranks, scheme_named("ring"), Pace::buffers, false);
    scenario.job.nodes = 2;
    scenario.between = {"", 1e6, 1e-6};
    EXPECT_EQ(record(scenario).recording.info.machine->nodes, ranks == 8 ? 2 : 1);
  }
}

TEST(SimRecording, SampleIsEvenBesideThePath) {
  const std::vector<bool> chosen = choose_ranks(100, 10, {99, 98, 97});
  EXPECT_EQ(std::count(chosen.begin(), chosen.end(), true), 10);
  for (const std::size_t rank : {97u, 98u, 99u, 0u}) EXPECT_TRUE(chosen[rank]) << rank;
  int longest = 0, gap = 0;
  for (const bool is_chosen : chosen) {
    gap = is_chosen ? 0 : gap + 1;
    longest = std::max(longest, gap);
  }
  EXPECT_LE(longest, 100 / 6);
  // A path through all of them leaves room for the sample.
  std::vector<int> all(100);
  std::iota(all.rbegin(), all.rend(), 0);
  const std::vector<bool> of_long_path = choose_ranks(100, 10, all);
  EXPECT_EQ(std::count(of_long_path.begin(), of_long_path.end(), true), 10);
  EXPECT_TRUE(of_long_path[99]);
}

}  // namespace
}  // namespace ringscope

// Settings as people type them, and how far they go.
#include "viz/data/analysis/what_if.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/viz_data/simulated.h"

namespace ringscope::viz {
namespace {

RunRates rates() {
  RunRates rates;
  rates.scenario = simulated_scenario(4);
  return rates;
}

WhatIfSettings applied(const std::string& text) {
  WhatIfSettings settings = settings_of(rates());
  apply(settings, rates(), text);
  return settings;
}

TEST(WhatIfSettings, NothingMeansTheRecordedRun) {
  const WhatIfSettings settings = applied("");
  EXPECT_EQ(settings, settings_of(rates()));
  EXPECT_EQ(settings.world_size, 4);
  EXPECT_EQ(settings.bandwidth, 1);
  EXPECT_EQ(settings.mask, "causal");
  EXPECT_EQ(std::pair(settings.scheme, settings.pace),
            std::pair(scheme_named("ring"), Pace::buffers));
}

TEST(WhatIfSettings, EveryOneCanBeTyped) {
  const WhatIfSettings settings = applied(
      "bandwidth=2,latency=0.5,flops=4,world-size=8,partition=zigzag,mask=causal+window:64,"
      "scheme=ring,kv-buffers=3,cores=2,jitter=0.25,straggler=5:0.25");
  EXPECT_EQ(settings, (WhatIfSettings{2, 0.5, 4, 8, PartitionKind::zigzag, "causal+window:64",
                                      scheme_named("ring"), Pace::buffers, 3, 2, 0.25, 5, 4}));
  EXPECT_EQ(applied("cores=own").cores, 0);
  EXPECT_EQ(applied("scheme=ulysses").scheme, scheme_named("ulysses"));
  EXPECT_EQ(applied("kv-buffers=in-step").pace, Pace::in_step);
  EXPECT_EQ(applied("kv-buffers=in-step,scheme=ring").pace, Pace::in_step);
  EXPECT_EQ(applied("scheme=allgather").scheme, scheme_named("allgather"));
}

TEST(WhatIfSettings, DocumentsKeepTheirCommas) {
  const WhatIfSettings s = applied("mask=causal+documents:1000,3000,96,world-size=2");
  EXPECT_EQ(s.mask, "causal+documents:1000,3000,96");
  EXPECT_EQ(s.world_size, 2);
}

TEST(WhatIfSettings, CanBeCheckedBeforeThereIsARecording) {
  EXPECT_NO_THROW(check_settings(""));
  EXPECT_NO_THROW(check_settings("world-size=5000,straggler=7:0.5,mask=documents:1,2"));
  EXPECT_THROW(check_settings("bandwidth=much"), InputError);
  EXPECT_THROW(check_settings("trace.json"), InputError);
}

TEST(WhatIfSettings, BecomeAScenario) {
  RunRates of = rates();
  of.scenario.stragglers = {{1, 0.5}, {3, 0.25}};
  WhatIfSettings s = settings_of(of);
  s.bandwidth = 2;
  s.flops = 3;
  s.scheme = scheme_named("ulysses");
  s.cores = 2;
  s.world_size = 2;
  s.slow_rank = 0;
  s.slowdown = 4;
  const Scenario scenario = scenario_of(of, s);
  EXPECT_EQ(scenario.rates.bytes_per_s, 8e9);
  EXPECT_EQ(scenario.rates.forward_flops, 300e9);
  EXPECT_EQ(scenario.rates.backward_flops, 240e9);
  EXPECT_EQ(scenario.job.scheme, scheme_named("ulysses"));
  EXPECT_EQ(scenario.job.world_size, 2);
  EXPECT_EQ(scenario.cores, 2);
  ASSERT_EQ(scenario.stragglers.size(), 2u);  // rank 3 is not there any more
  EXPECT_EQ(scenario.stragglers[0].rank, 1);
  EXPECT_EQ(scenario.stragglers[1].rank, 0);
  EXPECT_EQ(scenario.stragglers[1].speed, 0.25);
}

}  // namespace
}  // namespace ringscope::viz

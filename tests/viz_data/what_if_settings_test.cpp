// Settings as people type them, and how far they go.
#include "viz/data/analysis/what_if.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/core/base/thrown.h"
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

TEST(WhatIfSettings, RefusesTheRestByNameAndValue) {
  const auto refused = [](const std::string& text, const std::string& name,
                          const std::string& value) {
    SCOPED_TRACE(text);
    const std::string what = input_error_of([&] { applied(text); });
    EXPECT_NE(what, "");
    expect_contains(what, name);
    expect_contains(what, value);
    EXPECT_EQ(what.find('\n'), std::string::npos);
  };
  for (const char* bad : {"0", "-1", "nan", "inf", "1e9", "x", "", "2x", " 2"})
    refused(std::string("bandwidth=") + bad, "bandwidth", "'" + std::string(bad) + "'");
  for (const char* bad : {"0", "-1", "1025", "99999999999", "1.5", "x", ""})
    refused(std::string("world-size=") + bad, "world-size", "'" + std::string(bad) + "'");
  refused("partition=diagonal", "diagonal", "zigzag");
  refused("mask=hexagonal", "hexagonal", "causal");
  refused("mask=documents:1,2", "mask", "4096");
  refused("scheme=pigeons", "scheme", "'pigeons'");
  refused("kv-buffers=lots", "kv-buffers", "'lots'");
  refused("kv-buffers=1", "kv-buffers", "'1'");
  refused("cores=0", "cores", "'0'");
  refused("jitter=-0.1", "jitter", "'-0.1'");
  refused("straggler=1", "straggler", "RANK:SPEED");
  refused("straggler=1:2", "straggler", "'2'");
  refused("straggler=1:0", "straggler", "'0'");
  refused("straggler=4:0.5", "straggler", "from 0 to 3");
  refused("colour=red", "colour", "bandwidth");
  refused("trace.json", "trace.json", "SETTING=VALUE");
  refused("bandwidth", "bandwidth", "''");
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

// Settings as people type them, and how far they go.
#include "viz/data/analysis/what_if.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/viz_data/simulated.h"

namespace ringscope::viz {
namespace {

Scenario applied(const std::string& text) {
  const Scenario recorded = simulated_scenario(4);
  Scenario wanted = recorded;
  apply(wanted, recorded, text);
  return wanted;
}

// What is typed comes back as text, in the order of the settings; what is as recorded is left out.
TEST(WhatIfSettings, EveryOneCanBeTypedAndIsSaid) {
  for (const auto& [typed, said] : std::vector<std::pair<std::string, std::string>>{
           {"", ""},
           {"bandwidth=1,world-size=4,mask=causal,cores=own,straggler=1:1", ""},
           {"straggler=5:0.25,jitter=0.25,cores=2,kv-buffers=3,scheme=ring,mask=causal+window:64,"
            "partition=zigzag,seqlen=8k,world-size=8,flops=4,bandwidth=2",
            "bandwidth=2,flops=4,world-size=8,seqlen=8192,partition=zigzag,mask=causal+window:64,"
            "kv-buffers=3,cores=2,jitter=0.25,straggler=5:0.25"},
           {"scheme=ulysses", "scheme=ulysses"},
           {"kv-buffers=in-step", "kv-buffers=in-step"},
           {"straggler=0:0.5,1:0.25", "straggler=0:0.5,straggler=1:0.25"},
           {"mask=causal+documents:1000,3000,96,world-size=2",
            "world-size=2,mask=causal+documents:1000,3000,96"}}) {
    EXPECT_EQ(settings_of(simulated_scenario(4), applied(typed)), said);
    EXPECT_EQ(settings_of(simulated_scenario(4), applied(said)), said);
  }
}

TEST(WhatIfSettings, CanBeCheckedBeforeThereIsARecording) {
  EXPECT_NO_THROW(check_settings(""));
  EXPECT_NO_THROW(check_settings("world-size=5000,straggler=7:0.5,mask=documents:1,2"));
  EXPECT_THROW(check_settings("bandwidth=much"), InputError);
  EXPECT_THROW(check_settings("trace.json"), InputError);
}

TEST(WhatIfSettings, AreFactorsOfWhatWasRecorded) {
  const Scenario scenario = applied("bandwidth=2,flops=3,scheme=allgather,straggler=0:0.25");
  EXPECT_EQ(scenario.rates.bytes_per_s, 8e9);
  EXPECT_EQ(scenario.rates.forward_flops, 300e9);
  EXPECT_EQ(scenario.rates.backward_flops, 240e9);
  EXPECT_EQ(scenario.job.scheme, scheme_named("allgather"));
  EXPECT_EQ(slowest_of(scenario).rank, 0);
  EXPECT_EQ(slowest_of(scenario).speed, 0.25);
}

}  // namespace
}  // namespace ringscope::viz

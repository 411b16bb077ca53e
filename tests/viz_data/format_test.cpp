// Numbers as people read them.
#include "viz/data/session/format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/tools/sim/recording.h"

namespace ringscope::viz {
namespace {

// Expect the text of each number.
template <class Format>
void expect_texts(const Format& format,
                  const std::vector<std::pair<double, const char*>>& expected) {
  for (const auto& [number, text] : expected) EXPECT_EQ(format(number), text) << number;
}

TEST(Format, TimesHaveThreeDigitsAndOneUnit) {
  expect_texts(time_text, {{0, "0 ns"},
                           {7, "7 ns"},
                           {999, "999 ns"},
                           {1000, "1.00 µs"},
                           {1250000, "1.25 ms"},
                           {12345678, "12.3 ms"},
                           {123456789, "123 ms"},
                           {2.5e9, "2.50 s"},
                           {-1500, "-1.50 µs"}});
  EXPECT_EQ(time_text(std::int64_t{1500}), "1.50 µs");
}

// Nobody reads "1000 µs" or "10.00 ms".
TEST(Format, RoundingUpTakesTheNextUnit) {
  expect_texts(
      time_text,
      {{999999, "1.00 ms"}, {999400, "999 µs"}, {9996000, "10.0 ms"}, {99960000, "100 ms"}});
}

TEST(Format, OtherUnits) {
  expect_texts(bytes_text, {{512, "512 B"},
                            {1024, "1.00 KiB"},
                            {1010 * 1024.0, "1010 KiB"},
                            {16777216, "16.0 MiB"},
                            {3.0 * 1024 * 1024 * 1024, "3.00 GiB"}});
  expect_texts(bandwidth_text, {{1.9 * 1024 * 1024 * 1024, "1.90 GiB/s"}});
  expect_texts(count_text, {{0, "0"}, {999, "999"}, {134217728, "134 M"}, {1500, "1.50 k"}});
  expect_texts(flops_text, {{34363932672, "34.4 GFLOP"}, {1e15, "1.00 PFLOP"}});
  expect_texts(percent_text, {{0.125, "12.5 %"}, {1, "100.0 %"}, {0, "0.0 %"}});
}

TEST(Format, OnlyLettersBecomeCapitals) {
  for (const auto& [text, expected] :
       {std::pair{"query", "Query"}, {"z", "Z"}, {"Query", "Query"}, {"{0}", "{0}"}, {"", ""}})
    EXPECT_EQ(capitalized(text), expected);
}

TEST(Format, SentencesDropZeros) {
  expect_texts(
      words_of_time,
      {{0, "0 ns"}, {312e6, "312 ms"}, {1.254e9, "1.25 s"}, {1.5e9, "1.5 s"}, {999'600, "1 ms"}});
  expect_texts(words_of_bytes, {{4456448, "4.25 MiB"}});
  expect_texts(words_of_share, {{0.974, "97 %"}, {0.004, "0.4 %"}, {0, "0 %"}});
  expect_texts(words_of_factor, {{7, "7"}, {1.748, "1.75"}, {12.7, "13"}});
}

TEST(Format, Words) {
  EXPECT_EQ(words_of_step(Pass::forward, 2), "step 2");
  EXPECT_EQ(words_of_step(Pass::backward, 0), "backward step 0");
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(listed({}, " and "), "");
  EXPECT_EQ(listed({"a"}, " and "), "a");
  EXPECT_EQ(listed({"a", "b", "c"}, " and "), "a, b and c");
  EXPECT_EQ(capitalized("rank 1"), "Rank 1");
  EXPECT_EQ(capitalized("µs"), "µs");
  EXPECT_EQ(capitalized(""), "");
}

TEST(Format, FactsOfARun) {
  RunInfo run;
  run.shape = {.batch = 2, .num_heads = 8, .num_heads_kv = 8, .seqlen = 4096, .head_dim = 64};
  using Facts = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(facts_of(run, false), (Facts{{"made by", "recorded on cpu"},
                                         {"pass", "forward"},
                                         {"sequence", "2 x 4096"},
                                         {"heads", "8 x 64"},
                                         {"dtype", "f32"}}));
  run.backend = "profile";
  run.lacks_shape = true;
  EXPECT_EQ(facts_of(run, false),
            (Facts{{"made by", "inferred from a profiler's trace"}, {"pass", "forward"}}));
  run.lacks_shape = false;
  run.backend = kIdealBackend;
  run.origin = {{"machine", "a laptop"}, {"version", "0.1.0"}};
  const Facts ideal = facts_of(run, false);
  EXPECT_TRUE(ideal[0].second.starts_with("idealised")) << ideal[0].second;
  EXPECT_EQ(ideal.back(), (Facts::value_type{"version", "0.1.0"}));
  EXPECT_EQ(std::count_if(ideal.begin(), ideal.end(),
                          [](const auto& fact) { return fact.first == "machine"; }),
            0);
  run.backend = "sim";
  run.shape.num_heads_kv = 2;
  run.machine = RunMachine{.device = "H100", .link = "NVLink4", .between = "IB NDR", .nodes = 2};
  run.machine->cores = 1;
  run.base_time_ns = 1'763'726'400'000'000'000;
  run.command = "ringscope simulate";
  run.origin = {{"version", "0.1.0"}, {"commit", "0123456789abcdef"}, {"seed", "7"}};
  EXPECT_EQ(facts_of(run, true), (Facts{{"made by", "simulated"},
                                        {"pass", "forward and backward"},
                                        {"sequence", "2 x 4096"},
                                        {"heads", "8 x 64, 2 of keys and values"},
                                        {"dtype", "f32"},
                                        {"hardware", "H100"},
                                        {"links", "NVLink4, between nodes IB NDR"},
                                        {"nodes", "2"},
                                        {"shared", "1 core"},
                                        {"date", "2025-11-21 12:00 UTC"},
                                        {"command", "ringscope simulate"},
                                        {"version", "0.1.0"},
                                        {"commit", "0123456789ab"},
                                        {"seed", "7"}}));
}

TEST(Format, WhatIsNoNumberIsADash) {
  expect_texts(time_text, {{std::nan(""), "–"}, {-0.0, "0 ns"}});
  expect_texts(percent_text, {{std::nan(""), "– %"}});
  expect_texts(count_text, {{INFINITY, "∞"}, {-INFINITY, "-∞"}});
}

}  // namespace
}  // namespace ringscope::viz

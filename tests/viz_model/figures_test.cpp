// The numbers of the figures that move, against numbers that one works out by hand.
#include "viz/model/figures/figures.h"

#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <cmath>

namespace ringscope::viz::figures_test {
namespace {

rapidjson::Document numbers(const char* name, const std::vector<std::string>& arguments) {
  rapidjson::Document json;
  json.Parse(figure_numbers(name, arguments).c_str());
  EXPECT_FALSE(json.HasParseError());
  return json;
}

TEST(Figures, GiveTheNumbersOfAHandCountedCase) {
  const rapidjson::Document work = numbers("work", {"causal", "contiguous", "2", "4"});
  const int pairs[2][2] = {{3, 0}, {3, 4}};
  for (unsigned rank = 0; rank < 2; ++rank)
    for (unsigned step = 0; step < 2; ++step)
      EXPECT_EQ(work["pairs"][rank][step].GetInt64(), pairs[rank][step]);
  EXPECT_EQ(work["imbalance"].GetDouble(), 7 / 5.0);
  EXPECT_EQ(work["ceiling"].GetDouble(), 5 / 7.0);

  const rapidjson::Document ring = numbers("ring", {"4", "1", "forward"});
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(ring["owners"][static_cast<unsigned>(rank)].GetInt(), (rank + 3) % 4);
  // After N hops backward every gradient is at home.
  EXPECT_EQ(numbers("ring", {"3", "3", "backward"})["owners"][2].GetInt(), 2);

  const rapidjson::Document merge = numbers("merge", {"1,3,2,5", "2"});
  EXPECT_EQ(merge["a"]["m"].GetDouble(), 3);
  EXPECT_NEAR(merge["a"]["l"].GetDouble(), 1 + std::exp(-2.0), 1e-12);
  EXPECT_NEAR(merge["merged"]["out"].GetDouble(), merge["once"]["out"].GetDouble(), 1e-12);
  EXPECT_TRUE(numbers("merge", {"1,2", "0"})["a"]["m"].IsNull());

  // 300 TFLOP/s over 150 GB/s, two bytes a value: 2,000 rows.
  EXPECT_NEAR(numbers("overlap", {"300", "150"})["crossing"].GetDouble(), 2000, 1e-6);

  const rapidjson::Document count = numbers("count", {"300"});
  EXPECT_EQ(count["f32"].GetDouble(), 300);
  EXPECT_EQ(count["bf16"].GetDouble(), 256);
}

TEST(Figures, RefuseWhatTheProgramRefuses) {
  for (const auto& [name, arguments] :
       std::vector<std::pair<const char*, std::vector<std::string>>>{
           {"work", {"casual", "zigzag", "4", "64"}},
           {"work", {"causal", "zigzag", "1000", "64"}},
           {"ring", {"4", "4", "forward"}},
           {"merge", {"1,x", "1"}},
           {"count", {"-1"}},
           {"count", {}},
           {"nothing", {"1"}}})
    EXPECT_TRUE(numbers(name, arguments).HasMember("error")) << name;
}

}  // namespace
}  // namespace ringscope::viz::figures_test

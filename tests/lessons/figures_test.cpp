// The numbers of the figures that move, against numbers that one works out by hand.
#include "lessons/figures/figures.h"

#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <cmath>

#include "core/trace/event.h"

namespace ringscope::lessons::figures_test {
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
  EXPECT_NEAR(numbers("overlap", {"300", "150", ""})["crossing"].GetDouble(), 2000, 1e-6);
  EXPECT_EQ(numbers("overlap", {"300", "150", "H100 NVLink4"})["B"].GetDouble(), 450e9);

  const rapidjson::Document count = numbers("count", {"300"});
  EXPECT_EQ(count["f32"].GetDouble(), 300);
  EXPECT_EQ(count["bf16"].GetDouble(), 256);
}

// Return the nanoseconds that a rank of a runner spends in a lane.
std::int64_t time_of(const rapidjson::Value& runner, unsigned rank, ringscope::Lane lane) {
  std::int64_t sum = 0;
  const auto& slices = runner["slices"][rank];
  for (unsigned at = 0; at < slices.Size(); at += 4)
    if (slices[at].GetInt() == static_cast<int>(lane))
      sum += slices[at + 3].GetInt64() - slices[at + 2].GetInt64();
  return sum;
}

TEST(Figures, RaceContiguousRanksAgainstZigzag) {
  // 4 ranks of 8,192 rows: hops are hidden, so the slowest rank of each step decides. In step, that is
  // c(c+1)/2 + 3 c^2 pairs against half of it; with two buffers nobody is faster than rank 3.
  const rapidjson::Document race = numbers("work", {"causal", "contiguous", "4", "32768"});
  const double ratio = race["first"]["wall_s"].GetDouble() / race["second"]["wall_s"].GetDouble();
  EXPECT_NEAR(ratio, 7 / 4.0, 0.01);
  // Rank 0 computes a triangle and then nothing, rank 3 all the time.
  const double wall = 1e9 * race["first"]["wall_s"].GetDouble();
  const auto share = [&](unsigned rank) {
    return static_cast<double>(time_of(race["first"], rank, ringscope::Lane::compute)) / wall;
  };
  EXPECT_NEAR(share(0), 1 / 7.0, 0.01);
  EXPECT_NEAR(share(3), 1, 0.01);
  EXPECT_EQ(race["pairs"][0][1].GetInt64(), 0);
  EXPECT_EQ(race["pairs"][3][1].GetInt64(), 8192 * 8192);
}

TEST(Figures, DealPiecesAsThePartitionsDo) {
  const auto deal = [](const std::string& ranks) {
    return numbers("deal", {"causal", ranks, "4", "4096"});
  };
  for (const auto& [ranks, partition] : {std::pair{"0 1 2 3", "contiguous"},
                                         {"0 0 1 1 2 2 3  3 ", "contiguous"},
                                         {"0 1 2 3 3 2 1 0", "zigzag"}}) {
    const rapidjson::Document mine = deal(ranks);
    const rapidjson::Document known = numbers("work", {"causal", partition, "4", "4096"});
    EXPECT_EQ(mine["pairs"], known["pairs"]) << ranks;
    EXPECT_EQ(mine["first"], known["first"]) << ranks;
  }
  const rapidjson::Document dealt = deal("3 1 3");
  EXPECT_EQ(dealt["holders"].Size(), 3u);
  EXPECT_EQ(dealt["holders"][2].GetInt(), 3);
  std::string many;
  for (int piece = 0; piece < 513; ++piece) many += "0 ";
  for (const std::string& ranks : {std::string(), std::string("4"), std::string("-1"),
                                   std::string("0,1"), std::string("0 x"), many})
    EXPECT_NE(std::string(deal(ranks)["error"].GetString()).find("accepted:"), std::string::npos)
        << ranks;
}

TEST(Figures, SlowARingOfRingsLessThanAFlatRing) {
  // A hop between nodes at 50 GB/s: 4,096 rows of 4 KiB in 335.5 us. The flat ring waits for seven of
  // them and a step; with four cards two levels hide all of them (the lesson on two nodes).
  const double hop = 4096.0 * 4096 / 50e9;
  const rapidjson::Document one = numbers("nodes", {"1", "50", "4096", "1"});
  const double flat = one["first"]["wall_s"].GetDouble();
  EXPECT_GT(flat, 7 * hop);
  EXPECT_LT(flat, 8 * hop);
  const rapidjson::Document four = numbers("nodes", {"4", "50", "4096", "1"});
  EXPECT_LT(four["second"]["wall_s"].GetDouble(), 0.7 * flat);
  EXPECT_GT(numbers("nodes", {"4", "50", "4096", "0.5"})["second"]["wall_s"].GetDouble(),
            1.5 * four["second"]["wall_s"].GetDouble());
}

TEST(Figures, DecodeAsTheLessonCounts) {
  const rapidjson::Document decode = numbers("decode", {"8", "131072", "20", "tree", "5"});
  // Ranks 0 to 3 have one of the 20 new rows more than the others.
  for (unsigned rank = 0; rank < 8; ++rank)
    EXPECT_EQ(decode["rows"][rank].GetInt(), 16384 + 2 + (rank < 4 ? 1 : 0));
  EXPECT_EQ(decode["rounds"].GetInt(), 6);
  EXPECT_EQ(decode["merge_bytes"].GetInt64(), 6 * 32 * 129 * 4);
  EXPECT_EQ(decode["ring_bytes"].GetDouble(), 7.0 * 16387 * 4096);
  EXPECT_NEAR(decode["merge_s"].GetDouble(), 6 * 5e-6 + 6 * 32 * 129 * 4 / 450e9, 1e-12);
  EXPECT_NEAR(decode["ring_s"].GetDouble(), 7 * (5e-6 + 16387 * 4096 / 450e9), 1e-12);
}

TEST(Figures, RefuseWhatTheProgramRefuses) {
  for (const auto& [name, arguments] :
       std::vector<std::pair<const char*, std::vector<std::string>>>{
           {"work", {"casual", "zigzag", "4", "64"}},
           {"work", {"causal", "zigzag", "1000", "64"}},
           {"ring", {"4", "4", "forward"}},
           {"merge", {"1,x", "1"}},
           {"count", {"-1"}},
           {"overlap", {"300", "150", "H100 string"}},
           {"deal", {"causal", "0", "33", "64"}},
           {"nodes", {"5", "50", "64", "1"}},
           {"decode", {"8", "64", "0", "bush", "0"}},
           {"count", {}},
           {"nothing", {"1"}}})
    EXPECT_TRUE(numbers(name, arguments).HasMember("error")) << name;
}

}  // namespace
}  // namespace ringscope::lessons::figures_test

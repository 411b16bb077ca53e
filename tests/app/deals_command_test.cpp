// Partitions of files, of documents and of a search, masks in pieces, and `ringscope positions`, as
// the program takes them.
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/base/npy.h"
#include "tests/app/program.h"

namespace ringscope {
namespace {

class DealsCommandTest : public ProgramTest {
 protected:
  void write_ranks(const std::string& name, const std::vector<Index>& ranks) const {
    AtomicFile file(path(name));
    write_npy_integers(file, {static_cast<Index>(ranks.size())}, ranks);
    file.commit();
  }
  std::vector<Index> dealt(Index seqlen) const {
    std::vector<Index> ranks;
    for (Index p = 0; p < seqlen; ++p) ranks.push_back(p * p % 7 % 3);  // rank 3 holds nothing
    return ranks;
  }
};

TEST_F(DealsCommandTest, RunsAnyPartitionUnderAnyMask) {
  write_ranks("ranks.npy", dealt(200));
  write_text("slices.txt",
             "0 100 0 100 causal\n100 200 0 30 full # a sink\n150 200 100 200 inverse\n");
  for (const char* mask :
       {"causal+window:20+sink:3", "ranges:slices.txt", "window:9+sink:80+documents:70,130"})
    for (const char* partition : {"zigzag", "file:ranks.npy", "searched"}) {
      const auto json = run_for_json(
          Strings("run --random --seqlen 200 --heads 2 --head-dim 8 --backward --verify") +
          Strings{"--mask", mask, "--partition", partition});
      EXPECT_TRUE(json["verify"]["pass"].GetBool()) << mask << " " << partition;
      EXPECT_STREQ(json["partition"].GetString(), partition);
      EXPECT_STREQ(json["mask"].GetString(), mask);
    }
}

TEST_F(DealsCommandTest, WhatIsWrittenIsReadBack) {
  write_ranks("ranks.npy", dealt(200));
  const Strings job = "--seqlen 200 --mask causal --world-size 4";
  const Strings machine = "--gpu H100 --link NVLink4";
  run_well("run --random" + job + "--partition file:ranks.npy --write-partition again.npy");
  EXPECT_EQ(read_file(path("again.npy"), "file"), read_file(path("ranks.npy"), "file"));
  run_well("simulate" + job + machine + "--tile 8x8 --partition searched --write-partition s.npy");
  const auto searched =
      run_for_json("simulate" + job + machine + "--tile 8x8 --partition searched");
  const auto file = run_for_json("simulate" + job + machine + "--tile 8x8 --partition file:s.npy");
  EXPECT_EQ(searched["wall_s"].GetDouble(), file["wall_s"].GetDouble());
  EXPECT_TRUE(
      run_for_json("run --random --verify" + job + "--partition file:s.npy")["verify"]["pass"]
          .GetBool());
}

TEST_F(DealsCommandTest, DealsForRanksOfUnequalSpeed) {
  const Strings job = "--seqlen 4096 --world-size 3 --mask causal";
  const Strings machine = "--gpu H100 --link NVLink4 --dtype bf16";
  const Strings tiles = "--tile 32x32", speeds = "--speeds 1,1,0.5";
  const auto at = [&](const char* partition, const Strings& more) {
    return run_for_json("simulate" + job + machine + tiles + Strings{"--partition", partition} +
                        more);
  };
  const auto unequal = at("searched", speeds), equal = at("searched", {});
  EXPECT_GT(unequal["wall_s"].GetDouble(), equal["wall_s"].GetDouble());
  EXPECT_LT(unequal["wall_s"].GetDouble(), at("zigzag", speeds)["wall_s"].GetDouble());
  EXPECT_LT(unequal["wall_s"].GetDouble(),
            at("searched", "--straggler 2:0.5")["wall_s"].GetDouble());
  EXPECT_EQ(unequal["machine"]["speeds"][2].GetDouble(), 0.5);
  EXPECT_STREQ(unequal["searched"].GetString(), "greedy");
  std::vector<double> ends;  // of computing
  for (const auto& rank : unequal["ranks"].GetArray())
    ends.push_back(rank["compute_s"].GetDouble());
  ASSERT_EQ(ends.size(), 3u);
  EXPECT_NEAR(ends[2] / ends[0], 1, 0.1);
  EXPECT_NEAR(ends[1] / ends[0], 1, 0.1);

  const auto plan = run_for_json("plan" + job + machine + "--partition searched" + speeds);
  EXPECT_STREQ(plan["chosen"]["partition"].GetString(), "searched");
  for (const auto& choice : plan["choices"].GetArray())
    if (choice["scheme"] == "ring" && choice["partition"] != "searched") {
      EXPECT_LT(plan["chosen"]["total_s"].GetDouble(), choice["total_s"].GetDouble());
    }
  const auto run = run_for_json(
      "run --random --verify --seqlen 600 --world-size 3 --partition searched"
      " --mask causal" +
      speeds);
  EXPECT_TRUE(run["verify"]["pass"].GetBool());
  EXPECT_EQ(run["speeds"][2].GetDouble(), 0.5);
  const auto pairs = [&](int rank) { return run["ranks"][rank]["pairs"].GetDouble(); };
  EXPECT_LT(pairs(2), 0.75 * pairs(0));
}

TEST_F(DealsCommandTest, WritesThePositionsOfARank) {
  run_well(
      "positions --seqlen 11 --world-size 2 --mask documents:3,8 --rank 1 --out p.npy "
      "--convention transformer-engine");
  EXPECT_EQ(parse_npy_integers(read_file(path("p.npy"), "file")),
            (std::vector<Index>{1, 2, 5, 6, 7, 8}));
}

}  // namespace
}  // namespace ringscope

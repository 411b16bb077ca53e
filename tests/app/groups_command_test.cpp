// `ringscope groups` as a program: what it tells of a world, and what it refuses.
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/app/program.h"

namespace ringscope {
namespace {

Strings groups_with(const Strings& more) {
  return "groups --tensor 2 --context 4 --data 2 --pipeline 2 --heads-kv 8" + more;
}

class GroupsCommandTest : public AcceptingProgramTest {};

TEST_F(GroupsCommandTest, DrawsAWorldAndTellsARanksGroups) {
  const std::string out = run_well(groups_with("--rank 21"));
  expect_has(out, {"32 ranks = 2 tensor x 4 context x 2 pipeline x 2 data, 8 a node",
                   "\npipeline    abcdefgh | abcdefgh | ijklmnop | ijklmnop\n",
                   "\ngradients   abababab | cdcdcdcd | abababab | cdcdcdcd\n", "17, 19, 21, 23\n",
                   "1, 3, 5, 7, 17, 19, 21, 23\n"});
  // Too many to be drawn.
  EXPECT_EQ(run_well("groups --data 1000").find("letter"), std::string::npos);
}

TEST_F(GroupsCommandTest, JsonHoldsTheNumbers) {
  const auto json = run_for_json(groups_with("--dtype f32 --rank 21"));
  EXPECT_EQ(json["world_size"].GetInt(), 32);
  EXPECT_EQ(json["rank"]["context"].GetInt(), 2);
  EXPECT_EQ(json["rank"]["members"]["data"][0].GetInt(), 5);
  const double mib = 1 << 20;
  EXPECT_EQ(json["ring_block_bytes"].GetDouble(), 32 * mib);
  const struct {
    const char* name;
    int groups, ranks, on_one_node, most_nodes;
    double times, bytes;
  } expected[] = {{"tensor", 16, 2, 16, 1, 32, 32 * 128 * mib},
                  {"context", 8, 4, 8, 1, 160, 160 * 32 * mib},
                  {"pipeline", 16, 2, 0, 2, 1, 128 * mib},
                  {"data", 16, 2, 0, 2, 0, 0},
                  {"gradients", 4, 8, 0, 2, 1, 1.75 * 16 * 80 * mib}};
  ASSERT_EQ(json["groups"].Size(), std::size(expected));
  for (rapidjson::SizeType i = 0; i < std::size(expected); ++i) {
    const auto& found = json["groups"][i];
    EXPECT_STREQ(found["name"].GetString(), expected[i].name);
    EXPECT_EQ(found["groups"].GetInt(), expected[i].groups) << i;
    EXPECT_EQ(found["ranks"].GetInt(), expected[i].ranks) << i;
    EXPECT_EQ(found["on_one_node"].GetInt(), expected[i].on_one_node) << i;
    EXPECT_EQ(found["across_nodes"].GetInt(), expected[i].groups - expected[i].on_one_node) << i;
    EXPECT_EQ(found["most_nodes"].GetInt(), expected[i].most_nodes) << i;
    EXPECT_EQ(found["times_a_step"].GetDouble(), expected[i].times) << i;
    EXPECT_EQ(found["bytes_a_step"].GetDouble(), expected[i].bytes) << i;
  }
}

TEST_F(GroupsCommandTest, SaysWhatIsAccepted) {
  const auto refused = [&](const Strings& more, const std::string& words) {
    expect_refused("groups" + more, {words});
  };
  refused("--tensor 16 --heads-kv 8", "a divisor of both accepted: 1, 2, 4, 8");
  refused("--tensor 3", "tensor: 3 given for 32 heads");
  refused("--tensor 2 --context 2 --world-size 6", "= 4 given for a world_size of 6");
  refused("--pipeline 3 --layers 2", "pipeline: 3 given for 2 layers");
  refused("--data 65537", "--data: '65537'");
  refused("--data 65536 --context 65536", "up to 65536");
  refused("--data 2 --rank 2", "--rank: '2'");
  refused("--rank -1", "--rank: '-1'");
  refused("--tensor 0", "--tensor: '0'");
  refused("--ranks-a-node 0", "--ranks-a-node: '0'");
  refused("--heads 6 --heads-kv 4", "heads-kv");
  refused("--scheme star", "--scheme 'star' given");
  refused("--context 6 --scheme mesh:2x2", "scheme: 'mesh:2x2' given for 6 ranks");
  refused("--context 1024 --scheme pass-q", "context: 1024 given");
  refused("extra", "extra");
}

}  // namespace
}  // namespace ringscope

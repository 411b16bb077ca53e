// Where paths come from: ways, how messages share them, and topologies in files, good and bad.
#include "core/sim/machine/topology.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "core/base/error.h"

namespace ringscope {
namespace topology_test {

const Link kInside{"inside", 400e9, 1e-6};
const Link kBetween{"between", 50e9, 4e-6};

Topology uniform(int world_size, int nodes, Placement placement = Placement::block, int nics = 1) {
  return Topology::uniform({world_size, nodes, placement, kInside, kBetween, nics});
}

std::string complaint_about(const std::string& text) {
  try {
    parse_topology(text, "cluster.txt");
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return "";
}

std::vector<std::pair<int, int>> to_next(int world_size) {
  std::vector<std::pair<int, int>> messages;
  for (int rank = 0; rank < world_size; ++rank)
    messages.emplace_back(rank, (rank + 1) % world_size);
  return messages;
}

TEST(Topology, PutsRanksOnNodesInBlocksOrByTurns) {
  const Topology block = uniform(7, 3);
  EXPECT_EQ(block.ranks_of(0), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(block.ranks_of(2), (std::vector<int>{5, 6}));
  const Topology cyclic = uniform(7, 3, Placement::cyclic);
  EXPECT_EQ(cyclic.ranks_of(0), (std::vector<int>{0, 3, 6}));
  EXPECT_EQ(cyclic.ranks_of(2), (std::vector<int>{2, 5}));
  for (const Topology* topology : {&block, &cyclic})
    for (int rank = 0; rank < 7; ++rank) {
      const std::vector<int>& here = topology->ranks_of(topology->node_of(rank));
      EXPECT_NE(std::find(here.begin(), here.end(), rank), here.end());
    }
}

TEST(Topology, OneNodeHasItsOwnPortsOnly) {
  for (const Path& path : uniform(4, 1).round(to_next(4))) {
    EXPECT_EQ(path.bytes_per_s, kInside.bytes_per_s);
    EXPECT_EQ(path.latency_s, kInside.latency_s);
  }
  for (const Path& path : uniform(4, 1).all_to_all()) {
    EXPECT_EQ(path.bytes_per_s, kInside.bytes_per_s);
    EXPECT_EQ(path.latency_s, kInside.latency_s);
  }
}

TEST(Topology, ARingOfBlocksLeavesEachNodeOnce) {
  const std::vector<Path> paths = uniform(8, 2).round(to_next(8));
  for (std::size_t rank = 0; rank < 8; ++rank) {
    const Link& link = rank % 4 == 3 ? kBetween : kInside;
    EXPECT_EQ(paths[rank].bytes_per_s, link.bytes_per_s) << rank;
    EXPECT_EQ(paths[rank].latency_s, link.latency_s) << rank;
  }
}

TEST(Topology, TwoMessagesThroughOneNicTakeTwiceAsLong) {
  const double bytes = 1e9;
  const Topology one = uniform(4, 2);
  const double alone = one.round({{0, 2}})[0].seconds(bytes) - kBetween.latency_s;
  const auto both = one.round({{0, 2}, {1, 3}});
  for (const Path& path : both)
    EXPECT_DOUBLE_EQ(path.seconds(bytes) - kBetween.latency_s, 2 * alone);
  // The other direction is another one, and a message inside the node is in nobody's way.
  const auto there_and_back = one.round({{0, 2}, {3, 1}, {0, 1}});
  EXPECT_EQ(there_and_back[0].bytes_per_s, kBetween.bytes_per_s);
  EXPECT_EQ(there_and_back[1].bytes_per_s, kBetween.bytes_per_s);
  EXPECT_EQ(there_and_back[2].bytes_per_s, kInside.bytes_per_s);
  // Two of them make room for two, but not for one to go faster.
  const Topology two = uniform(4, 2, Placement::block, 2);
  EXPECT_EQ(two.round({{0, 2}, {1, 3}})[1].bytes_per_s, kBetween.bytes_per_s);
  EXPECT_EQ(two.round({{0, 2}})[0].bytes_per_s, kBetween.bytes_per_s);
}

// Every message crosses nodes under cyclic placement: all ranks of a node share its NIC.
TEST(Topology, CyclicPlacementCrowdsTheLinksBetweenNodes) {
  for (const Path& path : uniform(8, 2, Placement::cyclic).round(to_next(8)))
    EXPECT_DOUBLE_EQ(path.bytes_per_s, kBetween.bytes_per_s / 4);
}

TEST(Topology, RoundsOfNodesAreRoundsOfTheirRanks) {
  const Topology topology = read_topology(RINGSCOPE_SOURCE_DIR "/core/sim/two_racks.txt");
  std::vector<std::pair<int, int>> messages;
  for (int rank = 0; rank < 16; ++rank) messages.emplace_back(rank, (rank + 4) % 16);
  const std::vector<Path> by_rank = topology.round(messages);
  const std::vector<Path> by_node = topology.round_of_nodes({0, 1, 2, 3}, 4);
  for (std::size_t rank = 0; rank < 16; ++rank) {
    EXPECT_EQ(by_rank[rank].bytes_per_s, by_node[rank / 4].bytes_per_s);
    EXPECT_EQ(by_rank[rank].latency_s, by_node[rank / 4].latency_s);
  }
}

// An all-gather runs a ring over every network interface, a send and a receive take one of them.
TEST(Topology, SpreadsACollectiveOverAllNics) {
  for (const int nics : {1, 2, 4, 8}) {
    const Topology topology = uniform(16, 2, Placement::block, nics);
    const auto rate = [&](Spread spread) {
      return topology.round(to_next(16), spread)[7].bytes_per_s;  // to the other node
    };
    EXPECT_EQ(rate(Spread::one_link), kBetween.bytes_per_s);
    EXPECT_EQ(rate(Spread::all_links), nics * kBetween.bytes_per_s);
    EXPECT_EQ(topology.round(to_next(16), Spread::all_links)[0].bytes_per_s, kInside.bytes_per_s);
  }
  // More links between nodes than the links inside can fill.
  EXPECT_EQ(
      uniform(16, 2, Placement::block, 64).round(to_next(16), Spread::all_links)[7].bytes_per_s,
      kInside.bytes_per_s);
}

// From the definition: each of the N (N-1) messages walks its way; a rank has sent all of its bytes
// when its most crowded link is through.
TEST(Topology, AllToAllIsWhatACountOfAllMessagesSays) {
  const auto check = [](const Topology& topology) {
    const int n = topology.world_size();
    const std::vector<Path> told = topology.all_to_all();
    for (int rank = 0; rank < n; ++rank) {
      std::vector<std::pair<int, int>> all;
      for (int from = 0; from < n; ++from)
        for (int to = 0; to < n; ++to)
          if (from != to) all.emplace_back(from, to);
      const std::vector<Path> shares = topology.round(all);
      double slowest = 0, latency = 0;
      int inside = 0;
      for (std::size_t k = 0; k < all.size(); ++k) {
        if (all[k].first != rank) continue;
        latency += shares[k].latency_s;
        if (topology.node_of(all[k].second) == topology.node_of(rank)) {
          ++inside;
          slowest = std::max(slowest, inside / shares[k].bytes_per_s);
        } else {
          slowest = std::max(slowest, 1 / shares[k].bytes_per_s);
        }
      }
      const Path& path = told[static_cast<std::size_t>(rank)];
      EXPECT_NEAR(path.bytes_per_s / ((n - 1) / slowest), 1, 1e-12) << rank;
      EXPECT_NEAR(path.latency_s, latency / (n - 1), 1e-18) << rank;
    }
  };
  check(uniform(8, 2));
  check(uniform(12, 3, Placement::cyclic, 2));
  check(uniform(7, 3));
  check(uniform(5, 5));
  check(read_topology(RINGSCOPE_SOURCE_DIR "/core/sim/two_racks.txt"));
  check(parse_topology("node a ranks 3 link 400,2\nnode b ranks 2 link 300\njoin a b 20,5\n", ""));
  // Nodes that messages go through, and ways of different length.
  check(
      parse_topology("node a ranks 2 link 400,2\nnode b ranks 3 link 300\nnode c ranks 1 link 9\n"
                     "node d ranks 2 link 70\njoin a b 20,5\njoin b c 30,1\njoin c a 25,2\n"
                     "join c d 50,3 2\n",
                     ""));
}

TEST(Topology, TakesTheFewestJoinsAndOfThoseTheWidest) {
  const Topology topology = parse_topology(
      "node a ranks 1 link 100\n"
      "node b ranks 1 link 100\n"
      "node c ranks 1 link 100\n"
      "switch narrow\n"
      "switch wide\n"
      "switch far\n"
      "join a narrow 10\njoin narrow b 10\n"
      "join a wide 30\njoin wide b 20\n"
      "join a far 90\njoin far c 90\njoin c b 90\n",
      "cluster.txt");
  EXPECT_EQ(topology.path(0, 1).bytes_per_s, 20e9);
  EXPECT_EQ(topology.path(1, 0).bytes_per_s, 20e9);
  EXPECT_EQ(topology.joins_between_nodes(0, 1), 2);
  EXPECT_EQ(topology.path(0, 2).bytes_per_s, 90e9);
}

TEST(Topology, MoreBandwidthIsNeverWorseWhereThereIsOneShortestWay) {
  std::mt19937 random(7);
  const auto pick = [&](int least, int most) {
    return std::uniform_int_distribution(least, most)(random);
  };
  for (int trial = 0; trial < 50; ++trial) {
    // A tree of switches with nodes at it.
    const int switches = pick(1, 4), nodes = pick(2, 5);
    std::vector<double> rates(static_cast<std::size_t>(switches - 1 + nodes));
    for (double& rate : rates) rate = pick(1, 9);
    std::vector<std::pair<int, int>> joins;
    for (int k = 1; k < switches; ++k) joins.emplace_back(k, pick(0, k - 1));
    for (int k = 0; k < nodes; ++k) joins.emplace_back(-1 - k, pick(0, switches - 1));
    const auto build = [&] {
      TopologyBuilder builder;
      for (int k = 0; k < nodes; ++k)
        builder.add_node(std::to_string(k), {2 * k, 2 * k + 1}, kInside);
      for (int k = 0; k < switches; ++k) builder.add_switch("s" + std::to_string(k));
      for (std::size_t k = 0; k < joins.size(); ++k)
        builder.join(joins[k].first < 0 ? -1 - joins[k].first : nodes + joins[k].first,
                     nodes + joins[k].second, {"", rates[k], 0}, 1);
      EXPECT_TRUE(builder.unreachable().empty());
      return builder.finish();
    };
    const Topology before = build();
    rates[static_cast<std::size_t>(pick(0, static_cast<int>(rates.size()) - 1))] *= 3;
    const Topology after = build();
    std::vector<std::pair<int, int>> messages;
    for (int rank = 0; rank < 2 * nodes; ++rank)
      messages.emplace_back(rank, pick(0, 2 * nodes - 1));
    for (std::size_t k = 0; k < messages.size(); ++k)
      EXPECT_GE(after.round(messages)[k].bytes_per_s, before.round(messages)[k].bytes_per_s);
    for (std::size_t rank = 0; rank < messages.size(); ++rank)
      EXPECT_GE(after.all_to_all()[rank].bytes_per_s * (1 + 1e-12),
                before.all_to_all()[rank].bytes_per_s);
  }
}

TEST(Topology, RefusesAClusterThatCanNotBe) {
  const auto complaint = [](const UniformCluster& cluster) -> std::string {
    try {
      Topology::uniform(cluster);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(complaint({8, 9, Placement::block, kInside, kBetween, 1}),
            "nodes: 9 given for 8 ranks; accepted: 1 to 8");
  EXPECT_EQ(complaint({8, 0, Placement::block, kInside, kBetween, 1}),
            "nodes: 0 given for 8 ranks; accepted: 1 to 8");
  EXPECT_EQ(complaint({8, 2, Placement::block, kInside, kBetween, 0}),
            "nics: 0 given; accepted: at least 1");
  for (const double rate : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                            std::numeric_limits<double>::infinity()}) {
    EXPECT_NE(complaint({8, 2, Placement::block, {"", rate, 0}, kBetween, 1}), "") << rate;
    EXPECT_NE(complaint({8, 2, Placement::block, kInside, {"", rate, 0}, 1}), "") << rate;
  }
  EXPECT_NE(complaint({8, 2, Placement::block, kInside, {"", 1, -1}, 1}), "");
}

TEST(Topology, ReadsTheExample) {
  const Topology topology = read_topology(RINGSCOPE_SOURCE_DIR "/core/sim/two_racks.txt");
  EXPECT_EQ(topology.world_size(), 16);
  EXPECT_EQ(topology.nodes(), 4);
  EXPECT_EQ(topology.node_of(5), 1);
  EXPECT_EQ(topology.speed_of(5), 0.9);
  EXPECT_EQ(topology.speed_of(4), 1);
  EXPECT_EQ(topology.path(0, 1).bytes_per_s, 450e9);
  EXPECT_EQ(topology.path(0, 4).bytes_per_s, 50e9);
  EXPECT_DOUBLE_EQ(topology.path(0, 8).latency_s, 2e-6);
  // Every rank to the other rack: eight messages on four links.
  std::vector<std::pair<int, int>> messages;
  for (int rank = 0; rank < 16; ++rank) messages.emplace_back(rank, (rank + 8) % 16);
  for (const Path& path : topology.round(messages)) EXPECT_EQ(path.bytes_per_s, 25e9);
}

TEST(Topology, NodesMayComeAfterSwitchesAndLinesEndAnyHow) {
  const Topology topology = parse_topology(
      "switch s\r\n\tnode a ranks 1 link 5\r\n\njoin a s 2,3 # up\nnode b ranks 1 link 5\n"
      "join s b 1e0,0 2",
      "");
  EXPECT_EQ(topology.path(0, 1).bytes_per_s, 1e9);
  EXPECT_DOUBLE_EQ(topology.path(0, 1).latency_s, 3e-6);
}

TEST(Topology, RefusesABadFileWithItsLineAndField) {
  const std::string good = "node a ranks 2 link NVLink4\nnode b ranks 2 link NVLink4\n";
  const struct {
    std::string text;
    const char* begins;
    const char* has;
  } cases[] = {
      {"", "cluster.txt: no node in it", "node NAME ranks N link LINK"},
      {"switch s\n", "cluster.txt: no node in it", ""},
      {"rack a\n", "cluster.txt: line 1: 'rack' given", "switch NAME"},
      {"node a ranks 2\n", "cluster.txt: line 1: node: 'node a ranks 2' given", "link LINK"},
      {"node a ranks 2 wire 5\n", "cluster.txt: line 1: node: ", "link LINK"},
      {"node a ranks 0 link 5\n", "cluster.txt: line 1: ranks: '0' given", "from 1 to"},
      {"node a ranks -3 link 5\n", "cluster.txt: line 1: ranks: '-3' given", ""},
      {"node a ranks 2.5 link 5\n", "cluster.txt: line 1: ranks: '2.5' given", ""},
      {"node a ranks 99999999999 link 5\n", "cluster.txt: line 1: ranks: '99999999999'", ""},
      {"node a ranks 1048576 link 5\nnode b ranks 1 link 5\n", "cluster.txt: line 2: ranks: '1'",
       "up to 1048576 in all"},
      {"node a ranks 2 link 0\n", "cluster.txt: line 1: GB_PER_S: '0' given", "from 1e-09"},
      {"node a ranks 2 link -5\n", "cluster.txt: line 1: GB_PER_S: '-5' given", ""},
      {"node a ranks 2 link 1e999\n", "cluster.txt: line 1: GB_PER_S: '1e999' given", ""},
      {"node a ranks 2 link nan\n", "cluster.txt: line 1: link: 'nan' given", "GB_PER_S"},
      {"node a ranks 2 link 5,nan\n", "cluster.txt: line 1: LATENCY_US: 'nan' given", ""},
      {"node a ranks 2 link 5,-1\n", "cluster.txt: line 1: LATENCY_US: '-1' given", ""},
      {"node a ranks 2 link 5,\n", "cluster.txt: line 1: LATENCY_US: '' given", ""},
      {"node a ranks 2 link 5x\n", "cluster.txt: line 1: GB_PER_S: '5x' given", ""},
      {"node a ranks 2 link NVLink99\n", "cluster.txt: line 1: link: 'NVLink99' given", "NVLink4"},
      {"node a ranks 1 link 5\nswitch a\n", "cluster.txt: line 2: 'a' given twice",
       "first on line 1"},
      {"node a\x01 ranks 1 link 5\n", "cluster.txt: line 1: a word with characters", ""},
      {"node " + std::string(201, 'x') + " ranks 1 link 5\n", "cluster.txt: line 1: a word of 201",
       ""},
      {good + "join a c 5\n", "cluster.txt: line 3: join: 'c' given", "on a line before"},
      {good + "join a a 5\n", "cluster.txt: line 3: join: 'a' given twice", ""},
      {good + "join a b 5\njoin b a 5\n", "cluster.txt: line 4: join: 'b' and 'a' joined twice",
       "COUNT"},
      {good + "join a b 5 0\n", "cluster.txt: line 3: count: '0' given", "1 to 1024"},
      {good + "join a b 5 many\n", "cluster.txt: line 3: count: 'many' given", ""},
      {good + "join a b 5 1 1\n", "cluster.txt: line 3: join: ", "[COUNT]"},
      {good, "cluster.txt: line 2: join: nothing leads from a to b", "joins that connect all"},
      {good + "join a b 5\nswitch s\n", "cluster.txt: line 4: join: nothing leads from a to s", ""},
      {good + "join a b 5\nslow 4 0.5\n", "cluster.txt: line 4: slow: rank 4 given", "0 to 3"},
      {good + "join a b 5\nslow -1 0.5\n", "cluster.txt: line 4: rank: '-1' given", ""},
      {good + "slow 1 0\n", "cluster.txt: line 3: speed: '0' given", "0.001"},
      {good + "slow 1 nan\n", "cluster.txt: line 3: speed: 'nan' given", ""},
      {good + "slow 1 0.5\nslow 1 0.5\n", "cluster.txt: line 4: slow: rank 1 given twice",
       "line 3"},
  };
  for (const auto& [text, begins, has] : cases) {
    const std::string complaint = complaint_about(text);
    EXPECT_TRUE(complaint.starts_with(begins)) << text << "gave: " << complaint;
    EXPECT_NE(complaint.find(has), std::string::npos) << complaint;
    EXPECT_NE(complaint.find("accepted"), std::string::npos) << complaint;
    EXPECT_LT(complaint.size(), 1000u);
  }
}

TEST(Topology, NamesAFewOfManyLostParts) {
  std::string text;
  for (int k = 0; k < 12; ++k) text += "node n" + std::to_string(k) + " ranks 1 link 5\n";
  EXPECT_NE(complaint_about(text + "join n0 n1 5\n").find("n2, n3, n4, n5, n6 and 5 more"),
            std::string::npos);
}

TEST(Topology, RefusesTooMuch) {
  std::string text;
  for (int k = 0; k < 4097; ++k) text += "switch s" + std::to_string(k) + "\n";
  EXPECT_NE(complaint_about(text).find("line 4097: 's4096' is one too many"), std::string::npos);
  text.clear();
  for (int k = 0; k < 300; ++k) text += "switch s" + std::to_string(k) + "\n";
  for (int a = 0; a < 300; ++a)
    for (int b = 0; b < a; ++b)
      text += "join s" + std::to_string(a) + " s" + std::to_string(b) + " 1\n";
  EXPECT_NE(complaint_about(text).find("join: one too many"), std::string::npos);
  text = "node a ranks 1 link 1\n";
  const std::filesystem::path table =
      std::filesystem::path(testing::TempDir()) / "links_of_a_topology.txt";
  {
    std::ofstream file(table);
    for (int k = 0; k < 70; ++k) file << "link l" << k << "\n gb_per_s 1\n";
  }
  for (int k = 0; k < 70; ++k)
    text += "node n" + std::to_string(k) + " ranks 1 link " + table.string() + ":l" +
            std::to_string(k) + "\n";
  EXPECT_NE(complaint_about(text).find("line 66: link: "), std::string::npos)
      << complaint_about(text);
  std::filesystem::remove(table);
}

TEST(Topology, SaysWhatIsWrongWithAFileThatCanNotBeRead) {
  const std::filesystem::path folder = testing::TempDir();
  EXPECT_THROW(read_topology((folder / "no such file").string()), InputError);
  EXPECT_THROW(read_topology(folder.string()), InputError);
  const std::filesystem::path large = folder / "large_topology.txt";
  std::ofstream(large) << std::string((1 << 20) + 1, '#');
  try {
    read_topology(large.string());
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("1048577 bytes"), std::string::npos) << error.what();
  }
  std::filesystem::remove(large);
}

// Bytes and words by chance: whatever comes, it is either read or refused.
TEST(Topology, SurvivesWhatNobodyMeant) {
  std::mt19937 random(11);
  const std::string example = [] {
    std::ifstream file(RINGSCOPE_SOURCE_DIR "/core/sim/two_racks.txt");
    std::string text{std::istreambuf_iterator<char>(file), {}};
    return text.substr(text.find("node a0"));
  }();
  for (int trial = 0; trial < 2000; ++trial) {
    std::string text = example;
    for (int k = 0; k < 3; ++k) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 20);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 20));
      }
    }
    try {
      const Topology topology = parse_topology(text, "cluster.txt");
      EXPECT_EQ(topology.all_to_all().size(), static_cast<std::size_t>(topology.world_size()));
    } catch (const InputError& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("cluster.txt: ")) << error.what();
    }
  }
}

}  // namespace topology_test
}  // namespace ringscope

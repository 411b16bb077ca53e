// Orders along the ring: never worse than the ranks' own, as good as any where all can be tried.
#include "core/sim/machine/ring_order.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "core/base/error.h"

namespace ringscope {
namespace {

const Link kInside{"inside", 400e9, 1e-6};
const Link kBetween{"between", 50e9, 4e-6};
constexpr double kBytes = 1e8;

std::vector<int> by_number(int count) {
  std::vector<int> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

Topology two_racks() { return read_topology(RINGSCOPE_SOURCE_DIR "/core/sim/two_racks.txt"); }

// Nodes and switches at random, joined by a tree and some joins more.
Topology random_topology(std::mt19937& random, int nodes, int most_ranks, bool equal_ranks) {
  const auto pick = [&](int least, int most) {
    return std::uniform_int_distribution(least, most)(random);
  };
  const int switches = pick(1, 3), vertices = nodes + switches, equal = pick(1, most_ranks);
  TopologyBuilder builder;
  for (int node = 0, first = 0; node < nodes; ++node) {
    std::vector<int> ranks(static_cast<std::size_t>(equal_ranks ? equal : pick(1, most_ranks)));
    std::iota(ranks.begin(), ranks.end(), first);
    first += static_cast<int>(ranks.size());
    builder.add_node(std::to_string(node), ranks, {"", pick(1, 9) * 1e10, pick(0, 3) * 1e-4});
  }
  for (int k = 0; k < switches; ++k) builder.add_switch("s" + std::to_string(k));
  // From a vertex in the tree to one that is not yet.
  std::vector<int> mixed = by_number(vertices);
  std::shuffle(mixed.begin(), mixed.end(), random);
  const auto join = [&](int a, int b) {
    builder.join(a, b, {"", pick(1, 9) * 1e10, pick(0, 3) * 1e-4}, pick(1, 2));
  };
  for (int k = 1; k < vertices; ++k)
    join(mixed[static_cast<std::size_t>(k)], mixed[static_cast<std::size_t>(pick(0, k - 1))]);
  for (int k = 0; k < pick(0, 2); ++k)
    if (const int a = pick(0, vertices - 1), b = pick(0, vertices - 1); a != b) join(a, b);
  return builder.finish();
}

bool is_permutation_of_ranks(std::vector<int> order, int world_size) {
  std::sort(order.begin(), order.end());
  return order == by_number(world_size);
}

TEST(RingOrder, BeatsRanksThatTakeTurnsOnNodes) {
  const Topology topology = Topology::uniform({32, 4, Placement::cyclic, kInside, kBetween, 2});
  const std::vector<int> order = ring_order(topology, RingOrder::topology, Scheme::ring, kBytes);
  EXPECT_TRUE(is_permutation_of_ranks(order, 32));
  const RoundCost ours = cost_of_round(topology, order, kBytes);
  const RoundCost ranks =
      cost_of_round(topology, ring_order(topology, RingOrder::ranks, Scheme::ring, kBytes), kBytes);
  // Eight messages share two NICs in one, none share them in the other.
  EXPECT_NEAR(ours.slowest, kBetween.latency_s + kBytes / 50e9, 1e-15);
  EXPECT_NEAR(ranks.slowest, kBetween.latency_s + 4 * kBytes / 50e9, 1e-15);
  EXPECT_LT(ours.sum, ranks.sum / 4);
}

// Ranks by turns, where going to the other node is the faster way.
TEST(RingOrder, KeepsTheRanksOrderWhereWholeNodesAreWorse) {
  const Topology topology =
      Topology::uniform({12, 2, Placement::cyclic, {"", 1e9, 0}, {"", 50e9, 0}, 6});
  EXPECT_EQ(ring_order(topology, RingOrder::topology, Scheme::ring, kBytes), by_number(12));
}

TEST(RingOrder, KeepsBlocksAsTheyAre) {
  const Topology topology = Topology::uniform({32, 4, Placement::block, kInside, kBetween, 1});
  EXPECT_EQ(ring_order(topology, RingOrder::topology, Scheme::ring, kBytes), by_number(32));
}

// Two racks whose nodes are given by turns: in that order all four hops go up and down.
TEST(RingOrder, StaysInARackAsLongAsItCan) {
  std::string text;
  for (int k = 0; k < 10; ++k) text += "node n" + std::to_string(k) + " ranks 2 link 400\n";
  text += "switch even\nswitch odd\njoin even odd 50\n";
  for (int k = 0; k < 10; ++k)
    text += "join n" + std::to_string(k) + (k % 2 == 0 ? " even" : " odd") + " 50\n";
  const Topology topology = parse_topology(text, "");
  const std::vector<int> order = ring_order(topology, RingOrder::topology, Scheme::ring, kBytes);
  EXPECT_DOUBLE_EQ(cost_of_round(topology, order, kBytes).slowest, kBytes / 50e9);
  EXPECT_DOUBLE_EQ(cost_of_round(topology, by_number(20), kBytes).slowest, 5 * kBytes / 50e9);
}

TEST(RingOrder, NeverLosesToTheRanksOrder) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 120; ++trial) {
    const int nodes = 1 + static_cast<int>(random() % 14);
    const Topology topology = random_topology(random, nodes, 4, trial % 2 == 0);
    const std::vector<int> order = ring_order(topology, RingOrder::topology, Scheme::ring, kBytes);
    EXPECT_TRUE(is_permutation_of_ranks(order, topology.world_size()));
    EXPECT_LE(cost_of_round(topology, order, kBytes),
              cost_of_round(topology, by_number(topology.world_size()), kBytes));
  }
}

TEST(RingOrder, IsTheBestOfAllWhereAllCanBeTried) {
  std::mt19937 random(5);
  int tried = 0, better_than_ranks = 0;
  while (tried < 60) {
    const Topology topology = random_topology(random, 1 + static_cast<int>(random() % 5), 2, false);
    const int n = topology.world_size();
    if (n > 7) continue;
    ++tried;
    std::vector<int> order = by_number(n);
    const RoundCost ranks = cost_of_round(topology, order, kBytes);
    RoundCost least = ranks;
    do {
      least = std::min(least, cost_of_round(topology, order, kBytes));
    } while (std::next_permutation(order.begin(), order.end()));
    const RoundCost ours = cost_of_round(
        topology, ring_order(topology, RingOrder::topology, Scheme::ring, kBytes), kBytes);
    // Another rank to begin with, another order of the sum.
    EXPECT_EQ(ours.slowest, least.slowest);
    EXPECT_NEAR(ours.sum, least.sum, 1e-12 * least.sum);
    better_than_ranks += least < ranks;
  }
  EXPECT_GT(better_than_ranks, 10);
}

// The same with whole nodes, of which the tour is tried.
TEST(RingOrder, IsTheBestTourOfFewNodes) {
  std::mt19937 random(6);
  for (int trial = 0; trial < 20; ++trial) {
    const Topology topology = random_topology(random, 6, 3, true);
    const int here = topology.world_size() / 6;
    std::vector<int> tour = by_number(6);
    double least = 1e300;
    do {
      double slowest = 0;
      for (const Path& path : topology.round_of_nodes(tour, here))
        slowest = std::max(slowest, path.seconds(kBytes));
      least = std::min(least, slowest);
    } while (std::next_permutation(tour.begin() + 1, tour.end()));
    const std::vector<int> order =
        ring_order(topology, RingOrder::topology, Scheme::two_level, kBytes);
    const Machine machine = machine_on(topology, {}, order, Scheme::two_level);
    double ours = 0;
    for (int rank = 0; rank < machine.world_size; ++rank)
      ours = std::max(ours, machine.path_to_next_node(rank).seconds(kBytes));
    EXPECT_EQ(ours, least);
  }
}

// Nodes on a line of switches, given in any order: a tour up and down again has hops of one join
// between switches, mostly.
TEST(RingOrder, FindsItsWayAlongManyNodes) {
  std::mt19937 random(8);
  const int nodes = 40;
  std::vector<int> at = by_number(nodes);
  std::shuffle(at.begin(), at.end(), random);
  TopologyBuilder builder;
  for (int k = 0; k < nodes; ++k) builder.add_node(std::to_string(k), {k}, kInside);
  for (int k = 0; k < nodes; ++k) {
    builder.add_switch("s");
    builder.join(at[static_cast<std::size_t>(k)], nodes + k, {"", 100e9, 0}, 1);
    if (k > 0) builder.join(nodes + k - 1, nodes + k, {"", 100e9, 1e-3}, 1);
  }
  const Topology topology = builder.finish();
  const RoundCost ours = cost_of_round(
      topology, ring_order(topology, RingOrder::topology, Scheme::ring, kBytes), kBytes);
  const RoundCost ranks = cost_of_round(topology, by_number(nodes), kBytes);
  // The best goes up by the even ones and down by the odd ones: two joins a hop. A line up and one
  // hop back would take 39 at once.
  EXPECT_LT(ours.slowest, 4.5e-3);
  EXPECT_GT(ranks.slowest, 20e-3);
}

TEST(RingOrder, MachinesHaveThePathsAndSpeedsOfTheirPlaces) {
  const Topology topology = two_racks();
  std::vector<int> order = by_number(16);
  std::swap(order[0], order[5]);
  const Rates rates{1e12, 1e12, 1e9, 1e-6};
  const Machine ring = machine_on(topology, rates, order, Scheme::ring);
  EXPECT_EQ(ring.world_size, 16);
  EXPECT_EQ(ring.rates.bytes_per_s, 1e9);
  EXPECT_EQ(ring.speed_of(0), 0.9);
  EXPECT_EQ(ring.speed_of(5), 1);
  // Rank 5, on node a1, sends to rank 1, on a0.
  EXPECT_EQ(ring.path_to_next(0).bytes_per_s, 50e9);
  EXPECT_EQ(ring.path_to_next(1).bytes_per_s, 450e9);

  const Machine ulysses = machine_on(topology, rates, order, Scheme::ulysses);
  EXPECT_EQ(ulysses.to_all.size(), 16u);
  EXPECT_EQ(ulysses.path_to_all(0).bytes_per_s, topology.all_to_all()[5].bytes_per_s);

  const Machine two_level =
      machine_on(topology, rates, ring_order(topology, RingOrder::ranks, Scheme::two_level, kBytes),
                 Scheme::two_level);
  for (int rank = 0; rank < 16; ++rank) {
    EXPECT_EQ(two_level.path_to_next_here(rank).bytes_per_s, 450e9);
    EXPECT_EQ(two_level.path_to_next_node(rank).bytes_per_s, 50e9);
  }
}

// Both ways round and further, a message's path is that of its own two nodes.
TEST(RingOrder, ASlowNodeSlowsWhatItSendsAndReceives) {
  std::string text = "switch s\n";
  for (int node = 3; node >= 0; --node)
    text = fmt::format("node n{0} ranks 2 link 400,1\n{1}join n{0} s {2},3 2\n", node, text,
                       node == 1 ? 25 : 100);
  const Topology topology = parse_topology(text, "");
  const Machine machine = machine_on(topology, {}, by_number(8), Scheme::bidirectional);
  ASSERT_EQ(machine.between_nodes.size(), 16u);
  for (std::size_t from = 0; from < 4; ++from)
    for (std::size_t to = 0; to < 4; ++to)
      EXPECT_EQ(machine.between_nodes[4 * from + to].bytes_per_s, from == to             ? 0
                                                                  : from == 1 || to == 1 ? 25e9
                                                                                         : 100e9);
  for (int rank = 0; rank < 8; ++rank)
    EXPECT_EQ(machine.path_to_next_node(rank).bytes_per_s, rank / 2 < 2 ? 25e9 : 100e9);
  EXPECT_TRUE(machine_on(Topology::uniform({8, 4, Placement::block, kInside, kBetween, 2}), {},
                         by_number(8), Scheme::bidirectional)
                  .between_nodes.empty());
}

TEST(RingOrder, TwoLevelRingsNeedWholeAndEqualNodes) {
  const Topology cyclic = Topology::uniform({8, 2, Placement::cyclic, kInside, kBetween, 1});
  EXPECT_THROW(machine_on(cyclic, {}, by_number(8), Scheme::two_level), InputError);
  for (const RingOrder by : {RingOrder::ranks, RingOrder::topology})
    machine_on(cyclic, {}, ring_order(cyclic, by, Scheme::two_level, kBytes), Scheme::two_level);
  const Topology uneven = Topology::uniform({7, 2, Placement::block, kInside, kBetween, 1});
  try {
    machine_on(uneven, {}, ring_order(uneven, RingOrder::ranks, Scheme::two_level, kBytes),
               Scheme::two_level);
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()),
              "two-level: 4 ranks on node 0 and 3 on node 1; accepted: as many on every node");
  }
}

}  // namespace
}  // namespace ringscope

// Where paths come from: which node a rank is on, and how messages share the links between nodes.
#include "core/tools/sim/machine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/tools/sim/scenario.h"

namespace ringscope {
namespace cluster_test {

const Link kInside{"inside", 400e9, 1e-6};
const Link kBetween{"between", 50e9, 4e-6};
const Rates kRates{1e12, 2e12, 1e9, 1e-6};

Cluster cluster(int world_size, int nodes, int nics = 1) {
  return {world_size, nodes, kInside, kBetween, nics};
}

std::vector<Path> to_next(const Cluster& cluster, const Scheme* scheme = scheme_named("ring")) {
  return machine_on(cluster, kRates, scheme).to_next;
}

std::vector<int> nodes_of(const Cluster& cluster) {
  std::vector<int> nodes;
  for (int rank = 0; rank < cluster.world_size; ++rank) nodes.push_back(cluster.node_of(rank));
  return nodes;
}

TEST(Cluster, PutsConsecutiveRanksOnANode) {
  EXPECT_EQ(nodes_of(cluster(7, 3)), (std::vector<int>{0, 0, 0, 1, 1, 2, 2}));
  for (const int n : {1, 5, 8, 13})
    for (int nodes = 1; nodes <= n; ++nodes) {
      const Cluster here = cluster(n, nodes);
      const std::vector<int> found = nodes_of(here);
      for (int node = 0; node < nodes; ++node)
        EXPECT_EQ(std::count(found.begin(), found.end(), node), here.ranks_on(node));
    }
}

// Every message crosses nodes under cyclic placement: all ranks of a node share its links, and a
// link that is alone makes no message faster.
TEST(Cluster, CyclicPlacementCrowdsTheLinksBetweenNodes) {
  for (const int nics : {1, 2, 4, 8}) {
    Cluster dealt = cluster(8, 2, nics);
    dealt.placement = Placement::cyclic;
    EXPECT_EQ(nodes_of(dealt), (std::vector<int>{0, 1, 0, 1, 0, 1, 0, 1}));
    for (const Path& path : to_next(dealt)) {
      EXPECT_DOUBLE_EQ(path.bytes_per_s, kBetween.bytes_per_s * std::min(1.0, nics / 4.0));
      EXPECT_EQ(path.latency_s, kBetween.latency_s);
    }
  }
  // Ranks 0 and 3, 1 and 4, and 2: a message that leaves or enters a crowded node is slowed down.
  Cluster uneven = cluster(5, 3);
  uneven.placement = Placement::cyclic;
  for (const Path& path : to_next(uneven))
    EXPECT_DOUBLE_EQ(path.bytes_per_s, kBetween.bytes_per_s / 2);
}

TEST(Cluster, ARingOfBlocksLeavesEachNodeOnce) {
  for (const int nodes : {1, 2}) {
    const std::vector<Path> paths = to_next(cluster(8, nodes));
    for (std::size_t rank = 0; rank < 8; ++rank) {
      const Link& link = nodes == 2 && rank % 4 == 3 ? kBetween : kInside;
      EXPECT_EQ(paths[rank].bytes_per_s, link.bytes_per_s) << rank;
      EXPECT_EQ(paths[rank].latency_s, link.latency_s) << rank;
    }
  }
}

// An all-gather runs a ring over every network interface, a send and a receive take one of them.
TEST(Cluster, SpreadsACollectiveOverAllNics) {
  for (const int nics : {1, 2, 4, 8}) {
    const Cluster here = cluster(16, 2, nics);
    EXPECT_EQ(to_next(here)[7].bytes_per_s, kBetween.bytes_per_s);
    EXPECT_EQ(to_next(here, scheme_named("allgather"))[7].bytes_per_s, nics * kBetween.bytes_per_s);
    EXPECT_EQ(to_next(here, scheme_named("allgather"))[0].bytes_per_s, kInside.bytes_per_s);
  }
  // More links between nodes than the links inside can fill.
  EXPECT_EQ(to_next(cluster(16, 2, 64), scheme_named("allgather"))[7].bytes_per_s,
            kInside.bytes_per_s);
}

// From the definition: each of the N (N-1) messages takes its links; a rank has sent all of its
// bytes when its most crowded link is through.
TEST(Cluster, AllToAllIsWhatACountOfAllMessagesSays) {
  for (const Cluster& here : {cluster(4, 1), cluster(8, 2), cluster(12, 3, 2), cluster(7, 3),
                              cluster(5, 5), cluster(7, 2, 3)}) {
    const int n = here.world_size;
    std::vector<double> load(static_cast<std::size_t>(here.nodes));  // leaving; as many enter
    for (int from = 0; from < n; ++from)
      for (int to = 0; to < n; ++to)
        if (here.node_of(from) != here.node_of(to))
          ++load[static_cast<std::size_t>(here.node_of(from))];
    const double width = here.nics * kBetween.bytes_per_s;
    const std::vector<Path> told = machine_on(here, kRates, scheme_named("ulysses")).to_all;
    for (int rank = 0; rank < n; ++rank) {
      double slowest = 0, latency = 0;
      int inside = 0;
      for (int to = 0; to < n; ++to) {
        if (to == rank) continue;
        const bool crosses = here.node_of(to) != here.node_of(rank);
        latency += crosses ? kBetween.latency_s : kInside.latency_s;
        if (!crosses) slowest = std::max(slowest, ++inside / kInside.bytes_per_s);
        if (crosses)
          for (const int node : {here.node_of(rank), here.node_of(to)})
            slowest = std::max(slowest, load[static_cast<std::size_t>(node)] / width);
      }
      const Path& path = told[static_cast<std::size_t>(rank)];
      EXPECT_NEAR(path.bytes_per_s / ((n - 1) / slowest), 1, 1e-12) << rank << " of " << n;
      EXPECT_NEAR(path.latency_s, latency / (n - 1), 1e-18) << rank << " of " << n;
    }
  }
}

// All ranks of a node send to the next node at once, and a link that is alone makes none faster.
TEST(Cluster, TwoLevelRingsShareTheLinksBetweenNodes) {
  for (const int nics : {1, 2, 4, 8}) {
    const Machine machine = machine_on(cluster(8, 2, nics), kRates, scheme_named("two-level"));
    EXPECT_EQ(machine.rates.backward_flops, kRates.backward_flops);
    for (int rank = 0; rank < 8; ++rank) {
      EXPECT_EQ(machine.path_to_next_here(rank).bytes_per_s, kInside.bytes_per_s);
      EXPECT_DOUBLE_EQ(machine.path_to_next_node(rank).bytes_per_s,
                       kBetween.bytes_per_s * std::min(1.0, nics / 4.0));
      EXPECT_EQ(machine.path_to_next_node(rank).latency_s, kBetween.latency_s);
    }
  }
}

// Strides 1, 15, 3 and 13 of 16 ranks leave a node of 8 at 1, 1, 3 and 3 places at once: four rings
// have eight network interfaces to themselves, eight rings (5 and 7, too) crowd them four times.
TEST(Cluster, RingsOfAMultiRingShareTheLinksBetweenNodes) {
  const auto share = [](int rings, int nics) {
    return machine_on(cluster(16, 2, nics), kRates, scheme_named("multi-ring"), rings)
               .path_to_next_node(0)
               .bytes_per_s /
           kBetween.bytes_per_s;
  };
  EXPECT_EQ(share(1, 1), 1);
  EXPECT_EQ(share(4, 8), 1);
  EXPECT_EQ(share(8, 8), 0.25);
  EXPECT_EQ(share(4, 1), 0.125);
}

// A ring of whole blocks uses a port, and one network interface of a node. Parts of blocks that share
// the port take as long; where each part crosses by an interface of its own, a quarter of it.
TEST(Cluster, AMultiRingGainsNetworkInterfacesAndNoPort) {
  const auto wall = [](const char* scheme, int nodes, int nics) {
    Scenario scenario;
    scenario.job.shape = {1, 1, 1, 16 * 64, 8};
    scenario.job.world_size = 16;
    scenario.job.nodes = nodes;
    set_scheme(scenario.job, scheme);
    scenario.rates = {1e30, 1e30, 400e9, 0};
    scenario.between = {"", 50e9, 0};
    scenario.nics = nics;
    return run_scenario(scenario, work_of(scenario)).wall_s;
  };
  EXPECT_DOUBLE_EQ(wall("multi-ring:1", 1, 1), wall("ring", 1, 1));
  EXPECT_DOUBLE_EQ(wall("multi-ring:4", 1, 1), wall("ring", 1, 1));
  EXPECT_DOUBLE_EQ(wall("multi-ring:1", 2, 8), wall("ring", 2, 8));
  EXPECT_DOUBLE_EQ(wall("multi-ring:4", 2, 8), wall("ring", 2, 8) / 4);
  EXPECT_DOUBLE_EQ(wall("multi-ring:4", 2, 1), wall("ring", 2, 1) * 2);
}

}  // namespace cluster_test
}  // namespace ringscope

#include "core/tools/sim/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/error.h"

namespace ringscope {
namespace {

Path path_inside(const Cluster& cluster) {
  return {cluster.inside.bytes_per_s, cluster.inside.latency_s};
}

// Return the path of what a rank of `node` sends to all others in equal parts when all ranks do. The
// rate is that of the bytes in all, the latency the mean of one message.
Path path_to_all(const Cluster& cluster, int node) {
  const double n = cluster.world_size, here = cluster.ranks_on(node);
  if (n == 1) return path_inside(cluster);
  Path path{std::numeric_limits<double>::infinity(), 0};
  if (here > 1) path.bytes_per_s = cluster.inside.bytes_per_s / ((here - 1) / (n - 1));
  double latency = (here - 1) * cluster.inside.latency_s;
  if (here < n) {
    const double width = cluster.between.bytes_per_s * cluster.nics;
    const double half_s = cluster.between.latency_s / 2;  // to the switch, and on from there
    double most_crowded = 0, to_switch_s = 0;
    for (int other = 0; other < cluster.nodes; ++other) {
      const double ranks = cluster.ranks_on(other);
      most_crowded = std::max(most_crowded, ranks * (n - ranks) / width);
      to_switch_s += ranks * half_s;
    }
    path.bytes_per_s = std::min(path.bytes_per_s, (n - 1) / most_crowded);
    latency += to_switch_s - here * half_s + (n - here) * half_s;
  }
  path.latency_s = latency / (n - 1);
  return path;
}

// Return the messages that leave a node at once: one of each ring and rank whose next rank is elsewhere.
int crossings_of_rings(int n, int nodes, int rings) {
  const int per_node = n / nodes;
  int crossings = 0;
  for (int ring = 0; ring < rings; ++ring)
    for (int place = 0; place < per_node; ++place)
      if ((place + stride_of_ring(n, ring)) % n >= per_node) ++crossings;
  return crossings;
}

}  // namespace

int Cluster::node_of(int rank) const {
  if (placement == Placement::cyclic) return rank % nodes;
  const int fewest = world_size / nodes, in_longer = world_size % nodes * (fewest + 1);
  return rank < in_longer ? rank / (fewest + 1) : world_size % nodes + (rank - in_longer) / fewest;
}

Machine machine_on(const Cluster& cluster, const Rates& rates, const Scheme* scheme, int rings) {
  const int n = cluster.world_size;
  const Path inside = path_inside(cluster);
  Machine machine;
  machine.world_size = n;
  machine.rates = rates;
  if (scheme->links == Links::by_node) {
    if (n % cluster.nodes != 0)
      throw InputError(
          fmt::format("{}: {} ranks on node 0 and {} on node {}; accepted: as many on every node",
                      name_of(scheme), cluster.ranks_on(0), n / cluster.nodes, n % cluster.nodes));
    // All ranks of a node send to the next node at once, each over one of its links.
    const int crossings =
        rings > 0 ? crossings_of_rings(n, cluster.nodes, rings) : n / cluster.nodes;
    const double share = std::min(1.0, double(cluster.nics) / crossings);
    machine.to_next_here.assign(n, inside);
    machine.to_next_node.assign(n, cluster.nodes == 1 ? inside
                                                      : Path{cluster.between.bytes_per_s * share,
                                                             cluster.between.latency_s});
  } else if (scheme->links == Links::to_all) {
    for (int rank = 0; rank < n; ++rank)
      machine.to_all.push_back(path_to_all(cluster, cluster.node_of(rank)));
  } else {
    // All send to their next ranks at once, over the links that leave one node and enter another.
    const auto crosses = [&](int rank) {
      return cluster.node_of(rank) != cluster.node_of((rank + 1) % n);
    };
    std::vector<int> leaving(cluster.nodes), entering(cluster.nodes);
    for (int rank = 0; rank < n; ++rank) {
      if (!crosses(rank)) continue;
      ++leaving[cluster.node_of(rank)];
      ++entering[cluster.node_of((rank + 1) % n)];
    }
    // What is spread reaches the other links of its node through the links inside.
    const double widest =
        scheme->course == Course::gathers ? inside.bytes_per_s : cluster.between.bytes_per_s;
    for (int rank = 0; rank < n; ++rank) {
      const int load =
          std::max(leaving[cluster.node_of(rank)], entering[cluster.node_of((rank + 1) % n)]);
      const double share = cluster.between.bytes_per_s * cluster.nics / load;
      machine.to_next.push_back(
          crosses(rank) ? Path{std::min(widest, share), cluster.between.latency_s} : inside);
    }
  }
  return machine;
}

}  // namespace ringscope

#include "core/tools/sim/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/error.h"
#include "core/ring/loop_counts.h"
#include "core/tools/cost/amounts.h"

namespace ringscope {

namespace {

class Durations {
 public:
  Durations(const TaskGraph& graph, const Problem& job, const Machine& machine)
      : job_(job), machine_(machine), sends_to_all_(graph.hops_end_together) {
    for (const Pass pass : kAllPasses)
      flops_a_pair_[static_cast<int>(pass)] = flops_of_pairs(job.shape, 1, pass);
  }

  // Return seconds, rounded as compute_seconds() in core/tools/cost/time.h rounds them.
  double of_attention(const Task& task) const {
    const auto pass = static_cast<int>(task.pass);
    double effective = task.work.computed;
    if (!machine_.speed.empty()) effective /= machine_.speed[task.rank];
    if (machine_.jitter > 0)
      effective *= 1 + machine_.jitter * jitter_draw(machine_.seed, JitterOf::compute, task.pass,
                                                     task.rank, task.step);
    return flops_a_pair_[pass] * effective / machine_.rates.flops(task.pass) +
           (task.work.pairs > 0 ? machine_.step_seconds(task.pass) : 0);
  }

  double of_hop(const Task& task) const {
    const Path path = path_of(task);
    const double seconds = sends_to_all_ ? all_to_all_seconds(task.bytes, job_.world_size,
                                                              path.bytes_per_s, path.latency_s)
                                         : path.seconds(task.bytes);
    if (!(machine_.hop_jitter > 0)) return seconds;
    const JitterOf what =
        task.payload == Payload::kv || sends_to_all_ ? JitterOf::kv_hop : JitterOf::gradient_hop;
    // A rank's two hops of one step draw different random numbers.
    const int step = task.step + (task.way == Way::between_nodes ? job_.world_size : 0);
    return seconds *
           (1 + machine_.hop_jitter * jitter_draw(machine_.seed, what, task.pass, task.rank, step));
  }

 private:
  // A rank's rings share its port inside the node; between nodes machine_on() has divided the links.
  Path path_of_ring(const Task& hop) const {
    const int per_node = job_.world_size / job_.nodes;
    if (hop.rank / per_node != hop.to / per_node) return machine_.path_to_next_node(hop.rank);
    Path path =
        job_.nodes > 1 ? machine_.path_to_next_here(hop.rank) : machine_.path_to_next(hop.rank);
    path.bytes_per_s /= job_.rings();
    return path;
  }
  Path path_of(const Task& hop) const {
    const Scheme& scheme = *job_.scheme;
    if (scheme.links == Links::to_all) return machine_.path_to_all(hop.rank);
    if (scheme.rings != nullptr) return path_of_ring(hop);
    const bool goes_straight_home =
        job_.nodes > 1 && scheme.course == Course::steps && hop.way == Way::backwards;
    if (!scheme.counts_nodes && !goes_straight_home &&
        (scheme.links == Links::to_next || job_.nodes == 1))
      return machine_.path_to_next(hop.rank);
    const int per_node = job_.world_size / job_.nodes;
    return hop.rank / per_node == hop.to / per_node ? machine_.path_to_next_here(hop.rank)
                                                    : machine_.path_to_next_node(hop.rank);
  }

  const Problem& job_;
  const Machine& machine_;
  bool sends_to_all_;
  double flops_a_pair_[2];
};

std::vector<double> cpu_seconds(const TaskGraph& graph, const Problem& job,
                                const CpuFigures& figures) {
  const AttentionShape& shape = job.shape;
  const double query_heads = row_values(shape, 1);
  const double kv_heads = query_heads / static_cast<double>(shape.group_size());
  const Mask mask = job.mask.for_seqlen(shape.seqlen);
  const Partitions deal = job.partitions();
  const auto n = static_cast<std::size_t>(job.world_size);

  std::vector<TileAmounts> amounts;  // [rank][owner]
  amounts.reserve(n * n);
  for (int rank = 0; rank < job.world_size; ++rank)
    for (int owner = 0; owner < job.world_size; ++owner)
      amounts.push_back(tile_amounts({mask, deal.queries_of(rank), deal.rows_of(owner)}));

  const auto seconds_of = [&](const Task& task) -> double {
    const KernelFigures& kernel = figures.kernel(task.pass);
    switch (task.kind) {
      case Task::Kind::begin:
        return task.pass == Pass::forward ? figures.start_s : 0;
      case Task::Kind::attend:
        return kernel.seconds(amounts[static_cast<std::size_t>(task.rank) * n + task.owner],
                              query_heads, kv_heads);
      case Task::Kind::add:
        return figures.add_s *
               block_values(shape, static_cast<double>(deal.rows_of(task.owner).size()));
      case Task::Kind::finish:
        return kernel.value_s *
               out_values(shape, static_cast<double>(deal.queries_of(task.rank).size())) /
               job.layout().head_shares();
      case Task::Kind::hop:
        if (!task.is_message()) return 0;
        return figures.hops.hop_s + figures.hops.byte_s * task.bytes;
      default:
        return 0;
    }
  };
  std::vector<double> seconds;
  seconds.reserve(graph.tasks.size());
  for (const Task& task : graph.tasks) seconds.push_back(seconds_of(task));
  return seconds;
}

}  // namespace

std::vector<double> durations_on(const TaskGraph& graph, const Problem& job,
                                 const Machine& machine) {
  if (machine.cpu != nullptr) return cpu_seconds(graph, job, *machine.cpu);
  const Durations durations(graph, job, machine);
  std::vector<double> seconds(graph.tasks.size(), 0);
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const Task& task = graph.tasks[i];
    if (task.kind == Task::Kind::attend) seconds[i] = durations.of_attention(task);
    if (task.is_message()) seconds[i] = durations.of_hop(task);
  }
  return seconds;
}

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

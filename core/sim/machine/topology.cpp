#include "core/sim/machine/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"

namespace ringscope {
namespace {

void check_link(const char* field, const Link& link) {
  if (!(link.bytes_per_s > 0) || std::isinf(link.bytes_per_s))
    throw InputError(fmt::format("{}: {} bytes/s given; accepted: a finite rate above 0", field,
                                 link.bytes_per_s));
  if (!(link.latency_s >= 0) || std::isinf(link.latency_s))
    throw InputError(fmt::format("{}: a latency of {} s given; accepted: a finite one, at least 0",
                                 field, link.latency_s));
}

}  // namespace

int TopologyBuilder::add_node(const std::string& name, std::vector<int> ranks, const Link& inside) {
  const int node = topology_.nodes();
  for (const int rank : ranks) {
    if (rank >= topology_.world_size()) topology_.node_of_.resize(rank + 1);
    topology_.node_of_[rank] = node;
  }
  topology_.vertices_.push_back({name, {}});
  topology_.nodes_.push_back({std::move(ranks), inside});
  return node;
}

int TopologyBuilder::add_switch(const std::string& name) {
  topology_.vertices_.push_back({name, {}});
  return static_cast<int>(topology_.vertices_.size()) - 1;
}

void TopologyBuilder::join(int a, int b, const Link& link, int count) {
  const int directed = 2 * static_cast<int>(topology_.joins_.size());
  topology_.joins_.push_back({a, b, link, count});
  topology_.vertices_[a].ways_out.push_back(directed);
  topology_.vertices_[b].ways_out.push_back(Topology::back(directed));
}

void TopologyBuilder::set_speed(int rank, double speed) {
  topology_.speed_.resize(topology_.node_of_.size(), 1);
  topology_.speed_[rank] = speed;
}

std::vector<int> TopologyBuilder::unreachable() const {
  const Topology::Ways ways = topology_.ways_from(0);
  std::vector<bool> is_reached(topology_.vertices_.size());
  for (const int vertex : ways.nearest_first) is_reached[vertex] = true;
  std::vector<int> others;
  for (std::size_t vertex = 0; vertex < is_reached.size(); ++vertex)
    if (!is_reached[vertex]) others.push_back(static_cast<int>(vertex));
  return others;
}

Topology TopologyBuilder::finish() {
  topology_.finish();
  return std::move(topology_);
}

Topology Topology::uniform(const UniformCluster& cluster) {
  const int n = cluster.world_size, nodes = cluster.nodes;
  if (nodes < 1 || nodes > n)
    throw InputError(fmt::format("nodes: {} given for {} ranks; accepted: 1 to {}", nodes, n, n));
  if (cluster.nics < 1)
    throw InputError(fmt::format("nics: {} given; accepted: at least 1", cluster.nics));
  check_link("link inside nodes", cluster.inside);
  check_link("link between nodes", cluster.between);

  TopologyBuilder builder;
  for (int node = 0; node < nodes; ++node) {
    std::vector<int> ranks;
    if (cluster.placement == Placement::cyclic) {
      for (int rank = node; rank < n; rank += nodes) ranks.push_back(rank);
    } else {
      const int first = node * (n / nodes) + std::min(node, n % nodes);
      for (int k = 0; k < n / nodes + (node < n % nodes ? 1 : 0); ++k) ranks.push_back(first + k);
    }
    builder.add_node("node " + std::to_string(node), std::move(ranks), cluster.inside);
  }
  if (nodes > 1) {
    const int middle = builder.add_switch("switch");
    Link half = cluster.between;  // half of the way: to the switch, or on from there
    half.latency_s /= 2;
    for (int node = 0; node < nodes; ++node) builder.join(node, middle, half, cluster.nics);
  }
  return builder.finish();
}

// Search breadth first. When the search goes on from a vertex, it has seen all shortest ways to it
// and chosen the widest.
Topology::Ways Topology::ways_from(int vertex) const {
  Ways ways;
  ways.came_by.assign(vertices_.size(), -1);
  std::vector<int> distance(vertices_.size(), -1);
  std::vector<double> width(vertices_.size(), 0);
  distance[vertex] = 0;
  width[vertex] = std::numeric_limits<double>::infinity();
  ways.nearest_first.push_back(vertex);
  for (std::size_t next = 0; next < ways.nearest_first.size(); ++next) {
    const int from = ways.nearest_first[next];
    for (const int directed : vertices_[from].ways_out) {
      const int to = to_of(directed);
      const bool is_new = distance[to] < 0;
      if (is_new) {
        distance[to] = distance[from] + 1;
        ways.nearest_first.push_back(to);
      }
      const double width_here = std::min(width[from], width_of(directed));
      if (distance[to] == distance[from] + 1 && (is_new || width_here > width[to])) {
        width[to] = width_here;
        ways.came_by[to] = directed;
      }
    }
  }
  return ways;
}

void Topology::finish() {
  ways_.resize(vertices_.size());
  for (int vertex = 0; vertex < static_cast<int>(vertices_.size()); ++vertex)
    if (!is_end(vertex)) ways_[vertex] = ways_from(vertex);
  see_whether_all_nodes_are_alike();
}

void Topology::see_whether_all_nodes_are_alike() {
  all_alike_ = true;
  for (int node = 1; node < nodes() && all_alike_; ++node) {
    if (!is_end(0) || !is_end(node) || hub_of(node) != hub_of(0)) {
      all_alike_ = nodes() == 2;
      return;
    }
    const Join &first = join_of(way_out(0)), &other = join_of(way_out(node));
    all_alike_ = first.count == other.count && first.link.bytes_per_s == other.link.bytes_per_s &&
                 first.link.latency_s == other.link.latency_s;
  }
}

// Call f(directed join) for every join on the way, in any order.
template <class F>
void Topology::for_joins(int from_node, int to_node, F&& f) const {
  if (from_node == to_node) return;
  if (is_end(from_node)) {
    f(way_out(from_node));
    if (hub_of(from_node) == to_node) return;
  }
  const int begin = hub_of(from_node);
  if (is_end(to_node)) f(back(way_out(to_node)));
  for (int vertex = hub_of(to_node); vertex != begin;) {
    const int directed = ways_[begin].came_by[vertex];
    f(directed);
    vertex = to_of(back(directed));
  }
}

Path Topology::path_between_nodes(int from, int to) const {
  Path path{std::numeric_limits<double>::infinity(), 0};
  for_joins(from, to, [&](int directed) {
    const Link& link = join_of(directed).link;
    path.bytes_per_s = std::min(path.bytes_per_s, link.bytes_per_s);
    path.latency_s += link.latency_s;
  });
  return path;
}

int Topology::joins_between_nodes(int from, int to) const {
  int joins = 0;
  for_joins(from, to, [&](int) { ++joins; });
  return joins;
}

Path Topology::path(int from_rank, int to_rank) const {
  const int from = node_of(from_rank), to = node_of(to_rank);
  return from == to ? path_inside(from) : path_between_nodes(from, to);
}

// `loads` is the number of messages on each directed join.
Path Topology::share(int from_node, int to_node, const std::vector<int>& loads,
                     Spread spread) const {
  if (from_node == to_node) return path_inside(from_node);
  Path path = path_between_nodes(from_node, to_node);
  // What is spread reaches the other links of its node through the links inside.
  if (spread == Spread::all_links)
    path.bytes_per_s =
        std::min(path_inside(from_node).bytes_per_s, path_inside(to_node).bytes_per_s);
  for_joins(from_node, to_node, [&](int directed) {
    if (spread == Spread::all_links || loads[directed] > join_of(directed).count)
      path.bytes_per_s = std::min(path.bytes_per_s, width_of(directed) / loads[directed]);
  });
  return path;
}

std::vector<Path> Topology::round(const std::vector<std::pair<int, int>>& messages,
                                  Spread spread) const {
  std::vector<int> loads(2 * joins_.size(), 0);
  for (const auto& [from, to] : messages)
    for_joins(node_of(from), node_of(to), [&](int directed) { ++loads[directed]; });
  std::vector<Path> paths;
  paths.reserve(messages.size());
  for (const auto& [from, to] : messages)
    paths.push_back(share(node_of(from), node_of(to), loads, spread));
  return paths;
}

std::vector<Path> Topology::round_of_nodes(const std::vector<int>& tour, int messages,
                                           std::size_t ahead) const {
  std::vector<int> loads(2 * joins_.size(), 0);
  const auto next = [&](std::size_t k) { return tour[(k + ahead) % tour.size()]; };
  for (std::size_t k = 0; k < tour.size(); ++k)
    for_joins(tour[k], next(k), [&](int directed) { loads[directed] += messages; });
  std::vector<Path> paths;
  paths.reserve(tour.size());
  for (std::size_t k = 0; k < tour.size(); ++k)
    paths.push_back(share(tour[k], next(k), loads, Spread::one_link));
  return paths;
}

// Count how many of the N (N-1) messages take each join and find, for each rank, the most crowded
// join of its messages. Sums follow the trees of ways, not the pairs of ranks.
class Topology::AllToAll {
 public:
  explicit AllToAll(const Topology& topology)
      : topology_(topology),
        vertices_(static_cast<int>(topology.vertices_.size())),
        attached_(topology.vertices_.size(), 0),
        loads_(2 * topology.joins_.size(), 0) {
    for (int vertex = 0; vertex < vertices_; ++vertex)
      attached_[topology.hub_of(vertex)] += topology.ranks_at(vertex);
    for (int vertex = 0; vertex < vertices_; ++vertex) {
      const double here = topology.ranks_at(vertex);
      if (topology.is_end(vertex)) {
        const int out = topology.way_out(vertex);
        const double load = here * (topology.world_size() - here);
        loads_[out] = loads_[back(out)] = load;
        if (load > 0) worst_end_ = std::max(worst_end_, load / topology.width_of(out));
      } else {
        for_ways(vertex, [&](int directed, double beyond) {
          loads_[directed] += attached_[vertex] * beyond;
        });
      }
    }
  }

  std::vector<Path> paths_by_rank() const {
    std::vector<Path> by_rank(topology_.world_size());
    std::vector<Beyond> by_hub(vertices_);
    for (int node = 0; node < topology_.nodes(); ++node) {
      const int hub = topology_.hub_of(node);
      if (!by_hub[hub].is_known) by_hub[hub] = beyond(hub);
      for (const int rank : topology_.ranks_of(node)) by_rank[rank] = path(node, by_hub[hub]);
    }
    return by_rank;
  }

 private:
  struct Beyond {
    bool is_known = false;
    double worst = 0;    // messages / width of the most crowded join
    double latency = 0;  // sum over one message to each rank
  };

  // Call f(directed join, number of ranks behind it) for the ways from `begin`, farthest first.
  template <class F>
  void for_ways(int begin, F&& f) const {
    const Ways& ways = topology_.ways_[begin];
    std::vector<double> ranks = attached_;
    for (auto vertex = ways.nearest_first.rbegin(); vertex != ways.nearest_first.rend(); ++vertex) {
      const int directed = ways.came_by[*vertex];
      if (directed < 0 || ranks[*vertex] == 0) continue;
      f(directed, ranks[*vertex]);
      ranks[topology_.to_of(back(directed))] += ranks[*vertex];
    }
  }

  Beyond beyond(int hub) const {
    Beyond result{true, worst_end_, 0};
    for (int vertex = 0; vertex < vertices_; ++vertex)
      if (topology_.is_end(vertex))
        result.latency += topology_.ranks_at(vertex) *
                          topology_.join_of(topology_.way_out(vertex)).link.latency_s;
    if (topology_.is_end(hub)) return result;
    for_ways(hub, [&](int directed, double ranks) {
      result.worst = std::max(result.worst, loads_[directed] / topology_.width_of(directed));
      result.latency += ranks * topology_.join_of(directed).link.latency_s;
    });
    return result;
  }

  Path path(int node, const Beyond& beyond) const {
    const Link& inside = topology_.nodes_[node].inside;
    const double n = topology_.world_size(), here = topology_.ranks_at(node);
    if (n == 1) return {inside.bytes_per_s, inside.latency_s};
    Path path{std::numeric_limits<double>::infinity(), 0};
    if (here > 1) path.bytes_per_s = inside.bytes_per_s / ((here - 1) / (n - 1));
    double latency = (here - 1) * inside.latency_s;
    const double inside_bytes_per_s = path.bytes_per_s;
    if (here < n) {
      path.bytes_per_s = std::min(path.bytes_per_s, (n - 1) / beyond.worst);
      if (topology_.is_end(node)) {
        // All ranks of other nodes are reached by this node's own join first.
        const int out = topology_.way_out(node);
        const double own = topology_.join_of(out).link.latency_s;
        path.own_bytes_per_s =
            std::min(inside_bytes_per_s, (n - 1) * topology_.width_of(out) / loads_[out]);
        latency += topology_.is_end(topology_.hub_of(node))
                       ? own * (n - here)
                       : beyond.latency - here * own + (n - here) * own;
      } else {
        latency += beyond.latency;
      }
    }
    path.latency_s = latency / (n - 1);
    return path;
  }

  const Topology& topology_;
  int vertices_;
  std::vector<double> attached_;  // ranks at a vertex and at the ends whose hub it is
  std::vector<double> loads_;     // messages, by directed join
  double worst_end_ = 0;
};

std::vector<Path> Topology::all_to_all() const { return AllToAll(*this).paths_by_rank(); }

}  // namespace ringscope

// A topology of ranks, nodes, switches and links, from which a machine's paths are derived.
//
// Inside a node every rank has a port of its own. Between nodes a message takes the path with the
// fewest joins and, among these, the widest. When a round of messages moves at once (every rank
// sends to its next one), a message gets
//
//   the least, over the joins on its path, of  link's rate x min(1, links / messages)
//
// where `messages` are those of the round that take the join in the same direction, and `links` are
// those side by side in it: a message goes through one of them, but a collective spreads its
// messages over all of them (Spread). Latencies add up along the path.
//
// A message has this share at all times, as if all of them moved: it does not get more when some
// are over early or have not begun. That is pessimistic for ranks out of step, but keeps all times
// monotone in every share, and a simulation one sweep. (Widening one of two paths of equal length
// may draw messages onto it that crowd another. Where there is one shortest path, as in trees, more
// bandwidth is never worse.)
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/cost/hardware.h"
#include "core/sim/machine/machine.h"

namespace ringscope {

// How ranks are numbered in a uniform cluster. block: consecutive ranks share a node; cyclic: rank
// r is on node r mod nodes.
enum class Placement { block, cyclic };

inline constexpr Placement kAllPlacements[] = {Placement::block, Placement::cyclic};

constexpr std::string_view name_of(Placement placement) {
  return placement == Placement::block ? "block" : "cyclic";
}

// How a message uses links side by side. one_link: as a send and a receive do. all_links: as an
// all-gather of a library does, which runs a ring over each network interface (NCCL's channels).
enum class Spread { one_link, all_links };

// Equal nodes around one switch that is never the bottleneck.
struct UniformCluster {
  int world_size = 1;
  int nodes = 1;
  Placement placement = Placement::block;
  Link inside;   // from every rank to any other of its node
  Link between;  // from a node to any other, one per network interface (NIC)
  int nics = 1;
};

class Topology {
 public:
  // Throw InputError for rates that are not positive, no node, or more nodes than ranks.
  static Topology uniform(const UniformCluster& cluster);

  int world_size() const { return static_cast<int>(node_of_.size()); }
  int nodes() const { return static_cast<int>(nodes_.size()); }
  int node_of(int rank) const { return node_of_[rank]; }
  const std::vector<int>& ranks_of(int node) const { return nodes_[node].ranks; }
  const std::string& name_of_node(int node) const { return vertices_[node].name; }
  double speed_of(int rank) const { return speed_.empty() ? 1 : speed_[rank]; }
  bool has_slow_ranks() const { return !speed_.empty(); }

  // Return whether the order of the nodes makes no difference.
  bool all_nodes_alike() const { return all_alike_; }

  // Return the path of a message that moves alone. From a rank to itself it is inside the node.
  Path path(int from_rank, int to_rank) const;
  Path path_between_nodes(int from, int to) const;
  Path path_inside(int node) const {
    return {nodes_[node].inside.bytes_per_s, nodes_[node].inside.latency_s};
  }
  int joins_between_nodes(int from, int to) const;

  // Return the path of each message when all move at once. A message is (from rank, to rank).
  std::vector<Path> round(const std::vector<std::pair<int, int>>& messages,
                          Spread spread = Spread::one_link) const;

  // Do the same for nodes in a ring, where each sends `messages` at once to the one that is `ahead`
  // places further. Return the path of one of them, by place in `tour`.
  std::vector<Path> round_of_nodes(const std::vector<int>& tour, int messages,
                                   std::size_t ahead = 1) const;

  // Return, by rank, the path of what it sends to all others in equal parts when all ranks do. The
  // rate is that of the bytes in all, the latency the mean of one message.
  std::vector<Path> all_to_all() const;

 private:
  friend class TopologyBuilder;

  struct Vertex {  // a node, or after all nodes a switch
    std::string name;
    std::vector<int> ways_out;  // directed joins
  };
  struct Node {
    std::vector<int> ranks;
    Link inside;
  };
  struct Join {
    int a = 0, b = 0;
    Link link;
    int count = 1;
  };
  // The paths from one vertex to all others, as a tree.
  struct Ways {
    std::vector<int> nearest_first;  // vertices
    std::vector<int> came_by;        // by vertex: the directed join that leads to it
  };

  // Join j has a number for each direction: 2 j from a to b, 2 j + 1 back.
  static int back(int directed) { return directed ^ 1; }
  const Join& join_of(int directed) const { return joins_[directed / 2]; }
  int to_of(int directed) const {
    return directed % 2 == 0 ? join_of(directed).b : join_of(directed).a;
  }
  double width_of(int directed) const {
    return join_of(directed).link.bytes_per_s * join_of(directed).count;
  }
  // A vertex with one join is an end: no path leads through it.
  bool is_end(int vertex) const { return vertices_[vertex].ways_out.size() == 1; }
  int way_out(int end) const { return vertices_[end].ways_out.front(); }
  int hub_of(int vertex) const { return is_end(vertex) ? to_of(way_out(vertex)) : vertex; }
  int ranks_at(int vertex) const {
    return vertex < nodes() ? static_cast<int>(ranks_of(vertex).size()) : 0;
  }

  void finish();  // call when everything is there and connected
  Ways ways_from(int vertex) const;
  void see_whether_all_nodes_are_alike();
  template <class F>
  void for_joins(int from_node, int to_node, F&& f) const;
  Path share(int from_node, int to_node, const std::vector<int>& loads, Spread spread) const;
  class AllToAll;

  std::vector<Vertex> vertices_;
  std::vector<Node> nodes_;
  std::vector<Join> joins_;
  std::vector<int> node_of_;
  std::vector<double> speed_;  // empty: all are 1
  bool all_alike_ = false;
  std::vector<Ways> ways_;  // by vertex; empty for ends
};

// Build a topology: nodes first, then switches, then joins.
class TopologyBuilder {
 public:
  // Add a vertex, all nodes before any switch, and return its number.
  int add_node(const std::string& name, std::vector<int> ranks, const Link& inside);
  int add_switch(const std::string& name);
  void join(int a, int b, const Link& link, int count);
  void set_speed(int rank, double speed);

  // Return the vertices that can't be reached from vertex 0.
  std::vector<int> unreachable() const;
  // Return the topology. All must be connected, each rank 0 .. world_size - 1 on one node.
  Topology finish();

 private:
  Topology topology_;
};

// Read a file in the format that two_racks.txt explains. Throw InputError with file, line, field,
// value and what is accepted.
Topology read_topology(const std::string& path);
Topology parse_topology(std::string_view text, const std::string& source);

}  // namespace ringscope

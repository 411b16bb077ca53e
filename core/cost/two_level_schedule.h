// Who holds what, when, in a ring of nodes whose every step is a ring of the ranks inside a node
// (core/sim/two_level.h): M nodes of G ranks, rank (n, g) = n G + g, step (o, i) = o G + i.
#pragma once

namespace ringscope {

struct TwoLevelSchedule {
  int rank = 0;
  int nodes = 1;
  int ranks_a_node = 1;

  constexpr int node() const { return rank / ranks_a_node; }
  constexpr int place() const { return rank % ranks_a_node; }
  constexpr int next_here() const { return at(node(), place() + 1); }
  constexpr int previous_here() const { return at(node(), place() + ranks_a_node - 1); }
  constexpr int next_node() const { return at(node() + 1, place()); }
  constexpr int previous_node() const { return at(node() + nodes - 1, place()); }
  // 0 <= outer < nodes, 0 <= inner < ranks_a_node.
  constexpr int owner(int outer, int inner) const {
    return at(node() + nodes - outer, place() + ranks_a_node - inner);
  }

 private:
  constexpr int at(int node, int place) const {
    return node % nodes * ranks_a_node + place % ranks_a_node;
  }
};

}  // namespace ringscope

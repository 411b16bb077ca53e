// Exercise 21: flat and two-level rings over two nodes, by formula.
//
// M nodes of G ranks. A step computes for `step` seconds. A hop takes `inside` seconds within a
// node, and `between` from one node to another (as long as it takes when all that cross in a round
// do so at once). All ranks keep step, and a hop runs beside the step before it.
//
//   flat        M G steps in one ring through all ranks. Every round of hops has some between nodes.
//   two-level   M turns of G steps: a ring inside each node, while the next turn's blocks cross
#pragma once

#include <algorithm>

struct Cluster {
  int nodes = 2;
  int ranks_a_node = 4;
  double step = 0, inside = 0, between = 0;  // seconds
};

// After the last step nothing is sent.
inline double flat_ring(const Cluster& c) {
  return c.nodes * c.ranks_a_node * c.step;  // not yet right: hops take time
}

// A turn is over when its steps are, and the blocks of the next have crossed.
inline double two_level_ring(const Cluster& c) {
  return c.nodes * c.ranks_a_node * c.step;  // not yet right
}

// Return the share of its speed that the ring has with one rank at `speed` (0.8: it computes 1.25
// times as long), hops being cheap. How many others are there to make up for it?
inline double speed_with_straggler(double speed, int ranks) {
  return (ranks - 1 + speed) / ranks;  // not yet right: this is the mean
}

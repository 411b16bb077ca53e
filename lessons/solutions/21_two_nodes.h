// Exercise 21, solved.
#pragma once

#include <algorithm>

struct Cluster {
  int nodes = 2;
  int ranks_a_node = 4;
  double step = 0, inside = 0, between = 0;  // seconds
};

inline double flat_ring(const Cluster& c) {
  const double slowest = std::max(c.nodes > 1 ? c.between : 0, c.ranks_a_node > 1 ? c.inside : 0);
  return (c.nodes * c.ranks_a_node - 1) * std::max(c.step, slowest) + c.step;
}

inline double two_level_ring(const Cluster& c) {
  const double turn = (c.ranks_a_node - 1) * std::max(c.step, c.inside) + c.step;
  return (c.nodes - 1) * std::max(turn, c.between) + turn;
}

// All wait for the slowest, so the others' speed doesn't count.
inline double speed_with_straggler(double speed, int ranks) {
  return ranks > 0 ? std::min(1.0, speed) : 1.0;
}

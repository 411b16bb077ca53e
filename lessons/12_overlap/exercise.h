// Exercise 12: from which length on does a ring cost nothing?
//
//   F        operations a second         heads      of Q
//   B        bytes a second, one way     heads_kv   of K and V
//   bytes    of one number of K or V     share      of a full block's pairs that a step computes
//
//   crossover(...)      the rows a rank at which a hop takes as long as a step
//   exposed_time(...)   seconds of a hop that computing does not hide, for a rank of `rows` rows
#pragma once

#include <algorithm>

struct Machine {
  double F, B;
};

struct Model {
  double heads, heads_kv, head_dim, bytes;
};

inline double crossover(const Machine& machine, const Model& model, double share) {
  (void)model, (void)share;
  return machine.F / machine.B;  // not yet right: one case of many
}

inline double exposed_time(const Machine& machine, const Model& model, double share, double rows) {
  (void)machine, (void)model, (void)share, (void)rows;
  return 0;  // not yet right
}

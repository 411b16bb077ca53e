// Exercise 12: from which length on does a ring cost nothing?
//
//   F        operations a second         heads      of Q
//   B        bytes a second, one way     heads_kv   of K and V
//   bytes    of one number of K or V     share      of a full block's pairs that a step computes
//
//   crossover(...)      the rows a rank at which a step's transfers take as long as its computing;
//                       backward, a step computes five products in place of two, and sends dK and
//                       dV in f32 with its block
//   exposed_time(...)   forward: seconds of a hop that computing does not hide, for `rows` rows a rank
#pragma once

#include <algorithm>

struct Machine {
  double F, B;
};

struct Model {
  double heads, heads_kv, head_dim, bytes;
};

inline double crossover(const Machine& machine, const Model& model, double share, bool backward) {
  return machine.F / machine.B;  // not yet right: one case of many
}

inline double exposed_time(const Machine& machine, const Model& model, double share, double rows) {
  return 0;  // not yet right
}

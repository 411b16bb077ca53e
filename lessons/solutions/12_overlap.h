// Exercise 12, solved.
#pragma once

#include <algorithm>

struct Machine {
  double F, B;
};

struct Model {
  double heads, heads_kv, head_dim, bytes;
};

inline double crossover(const Machine& machine, const Model& model, double share) {
  return machine.F / machine.B * (model.bytes / 2) * (model.heads_kv / model.heads) / share;
}

inline double exposed_time(const Machine& machine, const Model& model, double share, double rows) {
  const double compute = 4 * model.head_dim * model.heads * share * rows * rows / machine.F;
  const double hop = 2 * model.head_dim * model.heads_kv * model.bytes * rows / machine.B;
  return std::max(0.0, hop - compute);
}

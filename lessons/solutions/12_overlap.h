// Exercise 12, solved.
#pragma once

#include <algorithm>

struct Machine {
  double F, B;
};

struct Model {
  double heads, heads_kv, head_dim, bytes;
};

inline double crossover(const Machine& machine, const Model& model, double share, bool backward) {
  const double flops = (backward ? 5 : 2) * 2 * model.heads * share;
  const double bytes = 2 * model.heads_kv * (model.bytes + (backward ? 4 : 0));
  return machine.F / machine.B * bytes / flops;
}

inline double exposed_time(const Machine& machine, const Model& model, double share, double rows) {
  const double compute = 4 * model.head_dim * model.heads * share * rows * rows / machine.F;
  const double hop = 2 * model.head_dim * model.heads_kv * model.bytes * rows / machine.B;
  return std::max(0.0, hop - compute);
}

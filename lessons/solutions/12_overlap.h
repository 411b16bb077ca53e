// Exercise 12, solved.
#pragma once

#include <algorithm>

struct Machine {
  double flops, bytes;
};
struct Layer {
  double q_heads, kv_heads, head_dim, value_bytes;
};

inline double crossover(const Machine& machine, const Layer& layer) {
  return machine.flops / machine.bytes * layer.value_bytes / 2 * layer.kv_heads / layer.q_heads;
}

inline double exposed(const Machine& machine, const Layer& layer, double rows, int ranks) {
  const double computing = 4 * layer.head_dim * layer.q_heads * rows * rows / machine.flops;
  const double sending =
      2 * layer.head_dim * layer.kv_heads * rows * layer.value_bytes / machine.bytes;
  return (ranks - 1) * std::max(0.0, sending - computing);
}

// Exercise 12: is a ring worth it?
//
//   crossover   the rows per rank from which a hop hides behind the computing of a step
//   exposed     the seconds, in all N - 1 hops, during which a rank waits: a full mask, c rows per rank
//
// The machine makes `flops` operations and sends `bytes` one way per second. Each row has q_heads query
// heads and kv_heads KV heads of head_dim numbers; a number of K or V has value_bytes.
#pragma once

#include <algorithm>

struct Machine {
  double flops, bytes;
};
struct Layer {
  double q_heads, kv_heads, head_dim, value_bytes;
};

inline double crossover(const Machine& machine, const Layer& layer) {
  return 0;  // to be written
}

inline double exposed(const Machine& machine, const Layer& layer, double rows, int ranks) {
  return 0;  // to be written
}

// Exercise 3: merge two states.
//
// A State is what one query row keeps of the keys that it has met:
//
//   m     the largest score                     -infinity when there were no keys
//   l     the sum of exp(score - m)             0 when there were none
//   out   the sum of exp(score - m) * value     one number for each column of V; zeros when none
//
// merge(a, b) returns the state of a's keys and b's keys together. Mind -infinity minus -infinity.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

struct State {
  double m;
  double l;
  std::vector<double> out;
};

inline State merge(const State& a, const State& b) {
  State both = a;
  both.l += b.l;  // not yet right: a and b are measured against maxima of their own
  for (std::size_t x = 0; x < both.out.size(); ++x) both.out[x] += b.out[x];
  return both;
}

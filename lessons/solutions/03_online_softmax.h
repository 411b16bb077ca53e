// Your ring, 1, solved.
#pragma once

#include "lessons/my_ring/given.h"

namespace my_ring {

inline void carry_on(State& state, const Row& scores, const Matrix& values) {
  double m = state.m;
  for (const double score : scores) m = std::fmax(m, score);
  if (m == kNone) return;  // no allowed key yet
  const double factor = std::exp(state.m - m);
  state.m = m;
  state.l *= factor;
  for (double& x : state.out) x *= factor;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    const double p = std::exp(scores[j] - m);
    state.l += p;
    add(state.out, p, values[j]);
  }
}

}  // namespace my_ring

// The same of our backward pass.
#pragma once

#define ring_backward right_ring_backward
#include "lessons/solutions/09_backward.h"
#undef ring_backward
#include "tests/lessons/wrong_ring/06_the_ring.h"

namespace my_ring {

inline Gradient ring_backward(Rank& rank, const Queries& mine, const Block& held,
                              const std::vector<State>& states, Matrix& dq) {
  Gradient gradient = right_ring_backward(rank, mine, held, states, dq);
  if (is_mistaken("a row of dV more")) gradient.dv.emplace_back(gradient.dv[0]);
  return gradient;
}

}  // namespace my_ring

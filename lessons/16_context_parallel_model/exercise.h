// Exercise 16: a local row's position, and the turn that belongs to it.
//
// `seqlen` tokens are dealt out zigzag to world_size ranks (lesson 9): 2 world_size chunks of equal
// size, of which rank r has chunk r and chunk 2 world_size - 1 - r, in this order.
#pragma once

#include <cmath>

struct Deal {
  int rank, world_size, seqlen;
};

// Turn the pair (x, y) counterclockwise by `frequency` times the position of local row `row`.
inline void turn(double& x, double& y, int row, const Deal& deal, double frequency) {
  const double angle = row * frequency;  // not yet right: that is where it stands on its rank
  x *= std::cos(angle);
  y *= std::cos(angle);
}

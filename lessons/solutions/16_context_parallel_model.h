// Exercise 16, solved.
#pragma once

#include <cmath>

struct Deal {
  int rank, world_size, seqlen;
};

inline void turn(double& x, double& y, int row, const Deal& deal, double frequency) {
  const int chunk = deal.seqlen / (2 * deal.world_size);
  const int which = row < chunk ? deal.rank : 2 * deal.world_size - 1 - deal.rank;
  const double turned_by = (which * chunk + row % chunk) * frequency, before = x;
  x = std::cos(turned_by) * before - std::sin(turned_by) * y;
  y = std::sin(turned_by) * before + std::cos(turned_by) * y;
}

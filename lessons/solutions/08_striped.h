// Exercise 8, solved.
#pragma once

struct Deal {
  int world_size, width;
};

inline int rank_of(int p, const Deal& deal) { return p / deal.width % deal.world_size; }

inline int local_row(int p, const Deal& deal) {
  return p / (deal.width * deal.world_size) * deal.width + p % deal.width;
}

inline int position(int rank, int i, const Deal& deal) {
  return (i / deal.width * deal.world_size + rank) * deal.width + i % deal.width;
}

inline bool may_attend(int rank, int i, int owner, int j, const Deal& deal) {
  return position(owner, j, deal) <= position(rank, i, deal);
}

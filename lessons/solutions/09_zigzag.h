// Exercise 9, solved.
#pragma once

inline int early_chunk(int rank, int /*world_size*/) { return rank; }
inline int late_chunk(int rank, int world_size) { return 2 * world_size - 1 - rank; }

struct Meeting {
  int first_query;
  int last_key;
  bool is_triangle;
};

inline Meeting meeting(int rank, int owner, int half) {
  if (owner < rank) return {0, half, false};
  if (owner > rank) return {half, 2 * half, false};
  return {0, 2 * half, true};
}

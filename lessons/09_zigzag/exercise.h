// Exercise 9: meetings of a zigzag ring.
//
// The text is cut into 2 * world_size chunks of `half` tokens each. A rank's rows are its earlier
// chunk, then its later one: 2 * half rows.
//
//   early_chunk, late_chunk   the two chunks of `rank`
//   meeting                   which part of an owner's block the rank attends under a causal mask:
//                             queries [first_query, 2 * half) and keys [0, last_key), counted in
//                             rows of the rank and of the owner. All of these pairs, or, when
//                             is_triangle, only those with j <= i
#pragma once

inline int early_chunk(int rank, int world_size) {
  (void)world_size;
  return rank;
}
inline int late_chunk(int rank, int world_size) {
  (void)world_size;
  return rank + 1;  // not yet right
}

struct Meeting {
  int first_query;
  int last_key;
  bool is_triangle;
};

inline Meeting meeting(int rank, int owner, int half) {
  return {0, 2 * half, rank == owner};  // not yet right where they differ
}

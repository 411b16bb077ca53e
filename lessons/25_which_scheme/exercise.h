// Exercise 25: which side travels, and how wide a mesh is.
//
// A rank has `rows` rows of queries and `keys` rows of K and V. There are `heads` query heads and
// `heads_kv` of K and V, head_dim numbers each, of `bytes` bytes. A state of a row and head has
// 4 head_dim + 12 bytes (lesson 25).
#pragma once

struct Layer {
  int heads, heads_kv, head_dim, bytes;
};

// Return whether a hop of queries and their states has fewer bytes than one of K and V.
inline bool queries_travel(const Layer& layer, long rows, long keys) {
  return rows < keys;  // not yet right: a row of queries is not as large as one of K and V
}

// Return the rows R of the grid of `ranks` ranks, R x C, with which a rank sends least; rows = keys.
// A rank sends its queries and its states to the C - 1 others of its row, K and V to the R - 1
// others of its column. Among equals the smallest R counts.
inline int best_rows(const Layer& layer, int ranks) {
  return 1;  // not yet right: this gathers all queries
}

// Exercise 11: the interval of a query, and what follows from it for a ring.
//
//   allowed_keys(i, window, document_begin)
//       the keys that query i may attend under a causal window, in a document that begins at
//       position document_begin: [first, last). The window holds `window` keys, i among them.
//
//   blocks_to_meet(rank, rows, window)
//       whole pieces of `rows` tokens per rank, a causal window, one document: with how many blocks,
//       its own included, does `rank` have work? Not by trying all pairs.
#pragma once

#include <algorithm>

struct Keys {
  int first, last;
};

inline Keys allowed_keys(int i, int window, int document_begin) {
  return {0, i + 1};  // not yet right: this is causal only
}

inline int blocks_to_meet(int rank, int rows, int window) {
  return rank + 1;  // not yet right: a window needs fewer
}

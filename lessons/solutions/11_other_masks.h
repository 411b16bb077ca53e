// Exercise 11, solved.
#pragma once

#include <algorithm>

struct Keys {
  int first, last;
};

inline Keys allowed_keys(int i, int window, int document_begin) {
  return {std::max(document_begin, i - window + 1), i + 1};
}

// The earliest key that any of the rank's queries sees is that of its first query.
inline int blocks_to_meet(int rank, int rows, int window) {
  const int first_key = std::max(0, rank * rows - window + 1);
  return rank - first_key / rows + 1;
}

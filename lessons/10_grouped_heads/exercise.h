// Exercise 10: the heads of K and V that go with some query heads.
//
// `heads` query heads share `heads_kv` of K and V, in groups of equal size and in order.
#pragma once

#include <vector>

struct Heads {
  int first, last;  // [first, last)
};

// Return the heads of K and V that query heads `mine` attend.
inline Heads kv_heads_of(Heads mine, int heads, int heads_kv) {
  return mine;  // not yet right, unless there are as many
}

// A rank copied heads of K so that each of its query heads had its own: copies[i] is the gradient of
// the copy for query head mine.first + i. Return the gradients of kv_heads_of(mine), in order.
inline std::vector<double> gradients(const std::vector<double>& copies, Heads mine, int heads,
                                     int heads_kv) {
  return copies;  // not yet right
}

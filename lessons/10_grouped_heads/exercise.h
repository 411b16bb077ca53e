// Exercise 10: the KV heads that a rank needs, and the gradient of a shared one.
//
//   kv_heads_of   the KV heads that query heads first to last - 1 read, in order and each once;
//                 num_heads_kv divides num_heads
//   shared        what a KV head's gradient is, given those that its query heads have for their
//                 copies: gradients[h][i] is of query head h; the result has a row per KV head
#pragma once

#include <vector>

inline std::vector<int> kv_heads_of(int first, int last, int num_heads, int num_heads_kv) {
  return {};  // to be written
}

inline std::vector<std::vector<double>> shared(const std::vector<std::vector<double>>& gradients,
                                               int num_heads_kv) {
  return gradients;  // to be written
}

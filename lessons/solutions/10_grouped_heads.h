// Exercise 10, solved.
#pragma once

#include <vector>

inline std::vector<int> kv_heads_of(int first, int last, int num_heads, int num_heads_kv) {
  const int group = num_heads / num_heads_kv;
  std::vector<int> heads;
  for (int head = first / group; head <= (last - 1) / group; ++head) heads.push_back(head);
  return heads;
}

inline std::vector<std::vector<double>> shared(const std::vector<std::vector<double>>& gradients,
                                               int num_heads_kv) {
  const std::size_t group = gradients.size() / static_cast<std::size_t>(num_heads_kv);
  std::vector<std::vector<double>> sums(static_cast<std::size_t>(num_heads_kv));
  for (std::size_t h = 0; h < gradients.size(); ++h) {
    std::vector<double>& sum = sums[h / group];
    sum.resize(gradients[h].size());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradients[h][i];
  }
  return sums;
}

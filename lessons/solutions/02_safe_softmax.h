// Exercise 2, solved.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

struct SoftmaxOfRow {
  std::vector<float> weights;
  double lse = 0;
};

inline SoftmaxOfRow softmax(const std::vector<float>& scores) {
  const float m = *std::max_element(scores.begin(), scores.end());
  SoftmaxOfRow row{std::vector<float>(scores.size()), m};
  if (std::isinf(m)) return row;
  float l = 0;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    row.weights[j] = std::exp(scores[j] - m);
    l += row.weights[j];
  }
  for (float& weight : row.weights) weight /= l;
  row.lse = double{m} + std::log(double{l});
  return row;
}

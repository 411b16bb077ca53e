// Exercise 2: softmax that doesn't overflow, with the lse of the row.
//
//   weights   the softmax of the scores; a score of -infinity is a forbidden key
//   lse       the logarithm of the sum of exp(score)
//
// Scores may be as large as 10,000. A row of forbidden keys alone has weights 0 and lse -infinity.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

struct SoftmaxOfRow {
  std::vector<float> weights;
  double lse = 0;
};

inline SoftmaxOfRow softmax(const std::vector<float>& scores) {
  return {std::vector<float>(scores.size()), 0};  // to be written
}

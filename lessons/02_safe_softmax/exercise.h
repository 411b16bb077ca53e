// Exercise 2: the log-sum-exp of a row.
//
// lse(scores) returns the natural logarithm of the sum of exp(score) over all scores, for scores of
// any size. A forbidden key has the score -infinity and counts nothing. A row without any allowed
// key has the lse -infinity.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

inline float lse(const std::vector<float>& scores) {
  float sum = 0;
  for (const float s : scores) sum += std::exp(s);  // not yet right: exp(89) is infinite
  return std::log(sum);
}

// A query row whose values have one number each. That is enough to try a formula of the sources by
// hand, because everything after the weights is linear in V.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "core/attention/online_softmax.h"
#include "core/base/random.h"
#include "tests/claims/claim.h"

namespace ringscope::claims {

inline constexpr double kMinusInf = -kInfinity;

template <class Values>
double count_nan(const Values& values) {
  return static_cast<double>(std::ranges::count_if(values, [](double x) { return std::isnan(x); }));
}

struct Row {
  std::vector<double> scores, values;
  std::size_t size() const { return scores.size(); }
};

// Scores of N(0, 2), values of N(0, 1).
inline Row random_row(Index keys, std::uint64_t seed) {
  Row row;
  for (Index j = 0; j < keys; ++j) {
    row.scores.push_back(2 * normal(seed, RandomTensor::k, j));
    row.values.push_back(normal(seed, RandomTensor::v, j));
  }
  return row;
}

// Return the row's output by definition, from all scores at once.
inline double softmax_average(const Row& row) {
  std::vector<double> weights(row.size());
  safe_softmax<double>(row.scores, weights);
  double sum = 0;
  for (std::size_t j = 0; j < row.size(); ++j) sum += weights[j] * row.values[j];
  return sum;
}

// Partial result over some of the keys; `out` is not normalised.
template <class T>
struct Part {
  RowState<T> row;
  T out = 0;
  T normalised() const { return out / row.row_sum; }
  T lse() const { return lse_of(row); }

  void carry(const Row& from, std::size_t first, std::size_t last) {
    const std::vector<T> scores(from.scores.begin() + first, from.scores.begin() + last);
    const std::vector<T> values(from.values.begin() + first, from.values.begin() + last);
    carry_on<T>(row, std::span<T>(&out, 1), scores, values.data());
  }
  void add(const Part& other) {
    merge<T>(row, std::span<T>(&out, 1), other.row, std::span<const T>(&other.out, 1));
  }
};

template <class T>
Part<T> part_of(const Row& row, std::size_t first, std::size_t last) {
  Part<T> part;
  part.carry(row, first, last);
  return part;
}

// Return [first, last) of each of `blocks` equal blocks of the row's keys.
inline std::vector<std::pair<std::size_t, std::size_t>> blocks_of(const Row& row,
                                                                  std::size_t blocks) {
  std::vector<std::pair<std::size_t, std::size_t>> bounds;
  for (std::size_t b = 0; b < blocks; ++b)
    bounds.push_back({b * row.size() / blocks, (b + 1) * row.size() / blocks});
  return bounds;
}

}  // namespace ringscope::claims
